"""The rows of the other split that train has, too."""

from __future__ import annotations

from collections import Counter
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Tuple

from ..foreign import Foreign
from . import common_columns
from .row_contents import SHORT, Row, fractions_in, row_of
from .rows import COMMON, PAIRS, Budget, Content, dataset_of, place_of, values_of
from .targets import Source

MOST_COLUMNS = 8
LEAST_MEASURED = 3
"""Fractions of a row that is oversampled: the counts of all rows must show it, too."""


class Shared:
    """Counts over the rows of the other split that train has; `record` has them."""

    def __init__(self, train: Content) -> None:
        self._train = train
        self._rows = self._telling = self._shared = self._copied = self._repeated = 0
        self._pairs: List[List[int]] = []
        self._oversampled = train.is_oversampled
        self.classes: Counter[str] = Counter()

    def add(self, value: Foreign, row: Optional[Row], whole: Optional[Row], number: int) -> None:
        """`row`: what is compared of the `whole` one."""
        train = self._train
        self._rows += 1
        if whole is not None and whole.label is not None:
            self.classes[whole.label] += 1
        if row is None or not (row.telling or train.short_rows_differ):
            return
        self._telling += 1
        first = train.first.get(row.content)
        if first is None:
            return
        common = train.counts.get(row.content, 1) >= COMMON
        if common and not self._is_no_chance(row, value):
            self._repeated += 1
            return
        self._shared += 1
        self._copied += common
        self._pairs += [[first, number]] if len(self._pairs) < PAIRS else []

    def _is_no_chance(self, row: Row, value: Foreign) -> bool:
        """Whether a row that train has several times is a copy: by its many fractions, or by
        some of them where train is oversampled, and equal rows are of one class."""
        if self._oversampled and self._train.labels.get(row.content, row.label) == row.label:
            return row.content not in self._train.conflicts and (
                fractions_in(value) >= LEAST_MEASURED)  # fmt: skip
        return fractions_in(value) >= SHORT

    def record(self) -> Dict[str, Any]:
        return {
            "type": "Overlap",
            "train": self._train.rows,
            "rows": self._rows,
            "telling": self._telling,
            "shared": self._shared,
            "pairs": self._pairs,
            "copied": self._copied,
            "repeated": self._repeated,
        }


def overlap(
    train: Content,
    other: Source,
    seconds: float,
    columns: Optional[FrozenSet[str]] = None,
    each: Optional[Callable[[Foreign, int], None]] = None,
) -> Tuple[Dict[str, Any], Counter[str]]:
    """The record Overlap, rows of the other split that train has, and the classes of that split;
    `columns`: those alone that `train` was read by; `each` gets a row and its number."""
    shared = Shared(train)
    if train.untold:
        return {"type": "Unknown", "reason": train.untold}, shared.classes
    dataset = dataset_of(other)
    if dataset is None:
        reason = "the loader of the other split has no dataset whose rows can be read"
        return {"type": "Unknown", "reason": reason}, shared.classes
    budget = Budget(dataset, seconds)
    for number, value in enumerate(values_of(dataset)):
        place = place_of(dataset, number)
        if each is not None:
            each(value, place)
        row = row_of(common_columns.of(value, columns))
        whole = row if columns is None else row_of(value)
        shared.add(value, row, whole, place)
        if budget.spent(row, number):
            break
    return {**shared.record(), "columns": sorted(columns or ())[:MOST_COLUMNS]}, shared.classes

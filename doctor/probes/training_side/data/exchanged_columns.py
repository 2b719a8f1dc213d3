"""Two columns of a table that some rows have in the other order."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any, Dict, List

import torch

from ..foreign import Foreign
from .columns import number_of
from .relations import relation

MOST_ROWS, MOST_COLUMNS, LEAST, MOST = 20_000, 16, 4, 0.05
"""Rows and columns that are compared, rows that are exchanged at least, and their share at most:
more are another kind of rows. Our own numbers."""
EITHER = re.compile(
    r"(?:^|_)(?:width|height|w|h|x|y|left|right|home|away|p)\d?(?:_|$)|"
    r"prob|share|score|fraction|percent|odds",
    re.IGNORECASE,
)
"""Names of columns either of which may be the large one: sides of a page, shares of a whole."""
WITHIN, BEYOND = 6.0, 10.0
"""How many middle deviations from its middle a value of a column is at most, and how many one of
another column is at least. Our own numbers."""


class ExchangedColumns:
    """Numbers of rows; `records` has the pairs of columns."""

    def __init__(self) -> None:
        self._columns: Dict[str, List[float]] = {}
        self._rows: List[int] = []

    def add(self, row: Foreign, number: int) -> None:
        if len(self._rows) >= MOST_ROWS:
            return
        self._rows.append(number)
        for name, value in row.items():
            column = self._columns.setdefault(str(name), [])
            column += [float("nan")] * (len(self._rows) - 1 - len(column))
            found = number_of(value)
            column.append(float("nan") if found is None else found)

    def records(self) -> List[Dict[str, Any]]:
        columns = {n: torch.tensor(c).double() for n, c in self._columns.items()}
        whole = {n: c for n, c in columns.items() if is_measured(c, len(self._rows))}
        found = []
        for one, other in combinations(list(whole)[:MOST_COLUMNS], 2):
            a, b = whole[one], whole[other]
            moved = is_of(a, b) & is_of(b, a) & is_far(a) & is_far(b)
            either = EITHER.search(one) or EITHER.search(other) or is_whole(a + b)
            if not either and LEAST <= int(moved.sum()) <= MOST * len(moved):
                rows = [self._rows[n] for n in torch.nonzero(moved)[:, 0].tolist()]
                fields = (one, other)
                found.append(relation("columns exchanged", len(rows), len(moved), fields, rows))
        return found


def is_measured(column: torch.Tensor, rows: int) -> bool:
    return len(column) == rows and bool(column.isfinite().all()) and float(deviation(column)) > 0


def is_whole(sums: torch.Tensor) -> bool:
    """Whether two columns are the parts of one whole, but for rounding."""
    return float(deviation(sums)) <= 2e-3 * float(sums.median().abs())


def deviation(column: torch.Tensor) -> torch.Tensor:
    """The middle of the distances from the middle: some values of another column move it little."""
    return (column - column.median()).abs().median()


def is_of(values: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
    return (values - column.median()).abs() <= WITHIN * deviation(column)


def is_far(column: torch.Tensor) -> torch.Tensor:
    return (column - column.median()).abs() > BEYOND * deviation(column)

"""The samples of a dataset by their content: equal ones within a split, and across two."""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import Any, Callable, Dict, Iterator, Optional, Sequence, Tuple

from ..foreign import Foreign, observing
from .row_contents import Path, Row, row_of
from .targets import Source, size

MOST_ROWS = 1_000_000
"""Rows of a split that are remembered: some 150 MB."""
ROWS_A_SECOND, VALUES_A_SECOND = 2_000, 40_000_000
"""What --sample-time stands for where the user's code makes each row: counts, so that a slow
machine compares the same rows. Our own numbers."""
PATIENCE = 4.0
"""Times that time, after which reading ends in any case."""
MOST_LEFT_OUT = 512
"""Rows that a filter left out whose labels are read."""
LEAST_SHORT = 64
"""Short rows of train that must differ before an equal one tells of a leak."""
COMMON = 3
"""Occurrences within train from which on an equal row says nothing about a leak, unless it holds
measured numbers."""
LEAST_COPIED, RARER = 8, 3
"""Contents that occur COMMON times in rows which are oversampled, and how many times more occur
once. Our own numbers."""
LEAST_EVEN, EVEN = 32, 0.9
"""Contents, and their share, that occur equally often. Our own numbers."""
CHUNK = 512
BLANK = 8
"""Rows that may be empty before a row has content."""
PAIRS, BESIDE = 3, 2
"""Pairs that are named, and rows between the ones that one sample became. Our own numbers."""


NOT_TOLD = "the rows are neither texts nor numbers"


class Content:
    """What is known of the rows of a split."""

    def __init__(self) -> None:
        self.first: Dict[bytes, int] = {}
        self.counts: Dict[bytes, int] = {}
        """Of contents that occur more than once."""
        self.labels: Dict[bytes, str] = {}
        self.conflicts: Dict[bytes, Tuple[int, int]] = {}
        self.rows = self.repeated = self.telling = self.conflicting = 0
        self.labelled = self.short = self.short_repeated = 0
        self.complete = False
        self.blank = 0
        """Rows without text and numbers."""
        self.classes: Counter[str] = Counter()
        self.untold = ""
        """Why nothing can be said, "" otherwise."""

    def add(self, row: Row, number: int) -> None:
        self.rows += 1
        self.telling += row.telling
        first = self.first.get(row.content)
        self.short += not row.telling
        self.short_repeated += first is not None and not row.telling
        if first is None:
            self.first[row.content] = number
        else:
            self.counts[row.content] = self.counts.get(row.content, 1) + 1
            self.repeated += row.telling
        if row.label is not None:
            self.classes[row.label] += 1
        if row.label is not None and row.telling:
            self.labelled += 1
            before = self.labels.setdefault(row.content, row.label)
            if before != row.label:
                self.conflicting += 1
                self.conflicts.setdefault(row.content, (self.first[row.content], number))

    @property
    def is_blank(self) -> bool:
        """Whether none of the first rows has content."""
        return self.blank > BLANK and self.blank == self.rows

    @property
    def is_oversampled(self) -> bool:
        """Whether most contents occur once, a few many times, and hardly any twice: chance, also
        that of frequent values, leaves more of each smaller count."""
        twice = sum(count == 2 for count in self.counts.values())
        common = len(self.counts) - twice
        once = len(self.first) - len(self.counts)
        return common >= max(LEAST_COPIED, 2 * twice) and once >= RARER * common

    @property
    def is_even(self) -> bool:
        """Whether nearly all contents occur equally often, as groups of samples or epochs."""
        often = Counter(self.counts.values())
        most = max(often.values(), default=0)
        return most >= max(LEAST_EVEN, EVEN * len(self.first))

    @property
    def short_rows_differ(self) -> bool:
        """Whether an equal short row is no chance: hardly any two of train are equal."""
        return self.short >= LEAST_SHORT and self.short_repeated <= 0.01 * self.short


class Budget:
    """How much of a split is read."""

    def __init__(self, dataset: Foreign, seconds: float) -> None:
        made = not is_table(dataset)
        self.rows = min(MOST_ROWS, int(ROWS_A_SECOND * seconds)) if made else MOST_ROWS
        self.values = int(VALUES_A_SECOND * seconds) if made else None
        self._end = time.monotonic() + PATIENCE * seconds

    def spent(self, row: Optional[Row], number: int) -> bool:
        """Whether this row, of that number, is the last one."""
        if self.values is not None and row is not None:
            self.values -= row.values
        empty = self.values is not None and self.values < 0
        return (
            number + 1 >= self.rows or empty or (not number % 64 and time.monotonic() > self._end)
        )


def is_table(dataset: Foreign) -> bool:
    """Whether its rows lie ready: those of a file, a table, tensors, or a list."""
    dataset = observing.attribute(dataset, "dataset", dataset)
    ready = any(observing.has(dataset, name) for name in ("again", "column_names", "tensors"))
    return ready or (isinstance(dataset, list) and not _is_file(dataset[0] if dataset else None))


def read(
    source: Source,
    seconds: float,
    each: Optional[Callable[[Foreign, int], None]] = None,
    part: Callable[[Foreign], Foreign] = lambda row: row,
) -> Content:
    """The content of as many rows as the budget allows; `each` gets a row and its number, and
    `part` gives what of a row is compared."""
    content = Content()
    dataset = dataset_of(source)
    if dataset is None:
        content.untold = "the loader has no dataset whose rows can be read one by one"
        return content
    budget = Budget(dataset, seconds)
    for number, value in enumerate(values_of(dataset)):
        place = place_of(dataset, number)
        if number < 2 and not content.untold and _is_random(dataset, number, value):
            content.untold = "a row differs when it is read again, as with random augmentation"
            if each is None:
                return content
        if each is not None:
            each(value, place)
        if _is_last(content, budget, part(value), number, place):
            content.complete = content.rows == size(dataset)
            break
    else:
        content.complete = True
    if not content.untold and (content.is_blank or content.blank == content.rows):
        content.untold = NOT_TOLD if content.rows else "nothing was read, see DAT018"
    return content


def place_of(dataset: Foreign, number: int) -> int:
    """The line of a row in its file, else its number from 0."""
    own = observing.has(dataset, "again")
    return int(observing.attribute(dataset, "line", 0)) or number if own else number


def _is_last(content: Content, budget: Budget, value: Foreign, number: int, place: int) -> bool:
    """Add a row, unless rows are random; whether no other one is read."""
    if content.untold:
        return budget.spent(None, number)
    row = row_of(value)
    content.blank += row is None
    content.add(row or Row(b"", None, False), place)  # of a file, an empty row among others
    return content.is_blank or budget.spent(row, number)


def dataset_of(source: Source) -> Foreign:
    """The dataset of a loader, or the rows themselves; None if it can be read only once."""
    value = source.items
    if source.kind == "loader":
        value = observing.attribute(value, "dataset")
    files = observing.attribute(value, "samples", observing.attribute(value, "imgs"))
    if isinstance(files, list) and files and _is_file(files[0]):
        return [(Path(each[0]), each[1]) for each in files]
    if value is None or (size(value) is None and not observing.has(value, "again")):
        return None
    return value


def spread(source: Source, most: int) -> Tuple[Foreign, Sequence[int]]:
    """The dataset, and numbers of rows from all over it; none where a row has no number."""
    dataset = dataset_of(source)
    return dataset, numbers_in(dataset, most)


def numbers_in(dataset: Foreign, most: int) -> Sequence[int]:
    count = size(dataset) or 0
    if not count or not most or not observing.has(dataset, "__getitem__"):
        return ()
    return range(0, count, -(-count // most))


def scattered(source: Source, most: int) -> Tuple[Foreign, Sequence[int]]:
    """The same at uneven distances: classes may come in turn."""
    dataset, numbers = spread(source, most)
    step = numbers[1] - numbers[0] if len(numbers) > 1 else 1
    last = (size(dataset) or 1) - 1
    return dataset, [min(number + n % step, last) for n, number in enumerate(numbers)]


def dropped(source: Source) -> int:
    """Rows without a trained label that a filter or a selection left out, projected from some of
    them where they are many: `datasets` keeps them in the table below the rows that it lists."""
    dataset = dataset_of(source)
    listed, table = (observing.attribute(dataset, name) for name in ("_indices", "_data"))
    if listed is None or table is None or "labels" not in table.column_names:
        return 0
    if table.num_rows > MOST_ROWS or listed.num_rows > MOST_ROWS:
        return 0
    kept = set(listed.column(0).to_pylist())
    left_out = [n for n in range(table.num_rows) if n not in kept]
    looked = left_out[:: -(-len(left_out) // MOST_LEFT_OUT) or 1]
    labels = table.column("labels")
    found = 0
    for number in looked:
        found += all(each == -100 for each in labels[number].as_py())
    return found * len(left_out) // max(1, len(looked))


def _is_file(entry: Foreign) -> bool:
    return isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], str) and (
        os.path.isfile(entry[0]))  # fmt: skip


def values_of(dataset: Foreign) -> Iterator[Foreign]:
    """The rows in order; a `datasets` object is read in chunks, which is much faster."""
    if observing.has(dataset, "again"):
        yield from dataset.again()
        return
    count = size(dataset) or 0
    if not observing.has(dataset, "column_names"):
        for index in range(count):
            yield dataset[index]
        return
    for start in range(0, count, CHUNK):
        columns = dataset[start : start + CHUNK]
        names = list(columns)
        for row in zip(*(columns[name] for name in names)):
            yield dict(zip(names, row))


def _is_random(dataset: Foreign, number: int, value: Foreign) -> bool:
    if observing.has(dataset, "again") or observing.has(dataset, "column_names"):
        return False
    first, again = row_of(value), row_of(dataset[number])
    return first is not None and again is not None and first.content != again.content


def repeats(content: Content, lines: bool = False) -> Dict[str, Any]:
    """The record Repeats; `lines`: the rows are lines of a text."""
    if content.untold:
        return {"type": "Unknown", "reason": content.untold}
    return {
        "type": "Repeats",
        "rows": content.rows,
        "telling": content.telling,
        "repeated": content.repeated,
        "labelled": content.labelled,
        "conflicting": content.conflicting,
        "beside": sum(row - first <= BESIDE for first, row in content.conflicts.values()),
        "pairs": [list(pair) for pair in list(content.conflicts.values())[:PAIRS]],
        "short": content.short,
        "short_repeated": content.short_repeated,
        "usual": lines or content.is_oversampled,
        "even": content.is_even,
    }

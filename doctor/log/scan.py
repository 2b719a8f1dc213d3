"""Finds the rows of a large block that may matter, with a fixed number of passes over its bytes.

Each four bytes in a row are looked up in a table of those that give a row away. What is found is
more than what matters, never less, so nothing is missed that a look at every row would find.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from doctor.log.grams import Mark, marks_of
from doctor.log.patterns import Gate
from doctor.log.rows import Rows, every_row

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

SMALL, SMALLEST = 1 << 18, 1 << 13
"""Bytes of a block below which each row is looked at: numpy takes longer to import, and to call."""
BITS = 16
FACTOR = 2654435761
"""Knuth's multiplicative hash: its upper bits depend on all four bytes."""


class Scanner:
    """The table, and its use on one block after the other."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._table: _Table | None = None

    def rows(self, block: bytes) -> Rows:
        """The rows of a block that may matter."""
        if len(block) < (SMALLEST if self._table else SMALL):
            return every_row(block)
        if self._table is None:
            self._table = _Table({gram: int(mark) for gram, mark in marks_of(self._gate).items()})
        return self._table.rows(block)


class _Table:
    """Four bytes -> marks: by a hash, whose few collisions are sorted out afterwards."""

    def __init__(self, marks: dict[bytes, int]) -> None:
        import numpy as np

        self._np = np
        grams = sorted((int.from_bytes(gram, "little"), mark) for gram, mark in marks.items())
        self._grams = np.array([gram for gram, _ in grams], dtype="<u4")
        self._marks = np.array([mark for _, mark in grams], dtype=np.uint8)
        self._factor, self._shift = np.uint32(FACTOR), np.uint32(32 - BITS)
        self._hashed = np.zeros(1 << BITS, dtype=np.uint8)
        self._hashed[(self._grams * self._factor) >> self._shift] = 1
        self._matters = np.array([_matters(Mark(bits)) for bits in range(16)])

    def rows(self, block: bytes) -> Rows:
        np = self._np
        places, marks = self._hits(block)
        newlines = np.flatnonzero(np.frombuffer(block, np.uint8) == 10)
        ends = _row_ends(np, block, newlines)
        row = np.searchsorted(ends, places)
        first = np.flatnonzero(np.diff(row, prepend=-1))
        if not len(first):
            return Rows([], [], [], [], len(newlines))
        row, marks = row[first], np.bitwise_or.reduceat(marks, first)
        matters = self._matters[marks]
        row, matters = row[matters > 0], matters[matters > 0]
        limits = np.concatenate(([0], ends + 1, [len(block)]))
        starts = limits[row]
        return Rows(
            starts.tolist(),
            limits[row + 1].tolist(),
            np.searchsorted(newlines, starts).tolist(),
            np.flatnonzero(matters > 1).tolist(),
            len(newlines),
        )

    def _hits(self, block: bytes) -> tuple[Array, Array]:
        """The offsets of the four bytes that are in the table, and their marks."""
        np = self._np
        size = len(block) // 4
        hashed = np.zeros((size, 4), dtype=np.uint8)
        for offset in range(4):
            words = np.frombuffer(block, "<u4", (len(block) - offset) // 4, offset)
            keys = words * self._factor
            np.right_shift(keys, self._shift, out=keys)
            hashed[: len(words), offset] = self._hashed.take(keys, mode="clip")
        places = np.flatnonzero(hashed.ravel().view(np.bool_))
        data = np.frombuffer(block, np.uint8)
        words = sum(data[places + at].astype(np.uint32) << np.uint32(8 * at) for at in range(4))
        at = np.minimum(np.searchsorted(self._grams, words), len(self._grams) - 1)
        exact = self._grams[at] == words
        return places[exact], self._marks[at[exact]]


def _matters(marks: Mark) -> int:
    """0: the row does not matter. 1: finite metrics. 2: it must be classified."""
    if Mark.UNCLEAR in marks or (Mark.METRIC in marks and Mark.NONFINITE in marks):
        return 2
    if Mark.METRIC in marks:
        return 1
    return 2 if Mark.UNCLEAR_UNLESS_METRIC in marks else 0


def _row_ends(np: Any, block: bytes, newlines: Array) -> Array:
    """Where rows end: at newlines, and at carriage returns that no newline follows."""
    if b"\r" not in block:
        return newlines
    data = np.frombuffer(block, np.uint8)
    returns = np.flatnonzero(data == 13)
    after = data[np.minimum(returns + 1, len(data) - 1)]
    ends: Array = np.concatenate((newlines, returns[after != 10]))
    ends.sort(kind="stable")
    return ends

"""Finds the rows of a large block that may matter, with a fixed number of passes over its bytes.

Each four bytes in a row are looked up in a table of those that give a row away. What is found is
more than what matters, never less, so nothing is missed that a look at every row would find.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from doctor.log.grams import Gram, Mark, grams_of
from doctor.log.patterns import Gate
from doctor.log.rows import Rows, every_row

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]
    _Beside = tuple[int, int]

SMALL, SMALLEST = 1 << 18, 1 << 13
"""Bytes of a block below which each row is looked at: numpy takes longer to import, and to call."""
SLICE = 1 << 17
"""Bytes of a block that are looked up at once: all that it takes stays in a processor's cache."""
BITS = 16
FACTOR = 2654435761
"""Knuth's multiplicative hash: its upper bits depend on all four bytes."""


class Scanner:
    """The table, and its use on one block after the other."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._table: Table | None = None

    @property
    def grams(self) -> list[Gram]:
        """What the table is made of."""
        return grams_of(self._gate)

    def rows(self, block: bytes) -> Rows:
        """The rows of a block that may matter."""
        if len(block) < (SMALLEST if self._table else SMALL):
            return every_row(block)
        if self._table is None:
            self._table = Table(self.grams)
        return self._table.rows(block)


class Table:
    """Four bytes -> marks: by a hash, whose few collisions are sorted out afterwards."""

    def __init__(self, grams: list[Gram]) -> None:
        import numpy as np

        self._np = np
        grams = sorted(grams, key=lambda gram: _word(gram.text))
        self._grams = np.array([_word(gram.text) for gram in grams], dtype="<u4")
        self._marks = np.array([int(gram.mark) for gram in grams], dtype=np.uint8)
        self._within = [[_words_beside(*text) for text in gram.within] for gram in grams]
        self._factor, self._shift = np.uint32(FACTOR), np.uint32(32 - BITS)
        self._hashed = np.zeros(1 << BITS, dtype=np.uint8)
        self._hashed[(self._grams * self._factor) >> self._shift] = 1
        self._keys = np.empty(SLICE // 4, dtype="<u4")
        self._in_table = np.empty(SLICE // 4, dtype=np.uint8)
        self._hits_of = np.empty((SLICE // 4, 4), dtype=np.uint8)
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
        slices = range(0, len(block), SLICE)
        places = np.concatenate([np.zeros(0, np.intp), *(self._places(block, at) for at in slices)])
        data = np.frombuffer(block, np.uint8)
        words = self._words(data, places)
        at = np.minimum(np.searchsorted(self._grams, words), len(self._grams) - 1)
        exact = self._grams[at] == words
        for number in np.flatnonzero(np.bincount(at[exact], minlength=1)):
            if texts := self._within[number]:
                those = np.flatnonzero(exact & (at == number))
                exact[those] = False
                for text in texts:
                    exact[self._of_text(data, places, those, text)] = True
        return places[exact], self._marks[at[exact]]

    def _places(self, block: bytes, start: int) -> Array:
        """The offsets in one slice whose four bytes may be in the table."""
        np = self._np
        size = min(SLICE, len(block) - start)
        self._hits_of[:] = 0
        for offset in range(4):
            count = min(SLICE, max(0, len(block) - start - offset)) // 4
            if not count:
                break
            words = np.frombuffer(block, "<u4", count, start + offset)
            keys, hits = self._keys[:count], self._in_table[:count]
            np.multiply(words, self._factor, out=keys)
            np.right_shift(keys, self._shift, out=keys)
            self._hashed.take(keys, mode="clip", out=hits)
            self._hits_of[:count, offset] = hits
        places: Array = np.flatnonzero(self._hits_of.ravel()[:size].view(np.bool_))
        places += start
        return places

    def _words(self, data: Array, places: Array) -> Array:
        """The four bytes at each offset, as numbers."""
        words: Array = self._np.zeros(len(places), dtype="<u4")
        for at in range(4):
            words |= data[places + at].astype("<u4") << self._np.uint32(8 * at)
        return words

    def _of_text(self, data: Array, places: Array, those: Array, text: list[_Beside]) -> Array:
        """Those of the places at which all words of a text are, each at its distance."""
        for distance, word in text:
            if not len(those):
                break
            there = self._np.clip(places[those] + distance, 0, len(data) - 4)
            those = those[self._words(data, there) == word]
        return those


def _words_beside(offset: int, text: bytes) -> list[_Beside]:
    """The words of a text, by their distances from the four bytes at an offset in it."""
    starts = {*range(0, len(text) - 4, 4), len(text) - 4} - {offset}
    return [(start - offset, _word(text[start : start + 4])) for start in sorted(starts)]


def _word(gram: bytes) -> int:
    return int.from_bytes(gram, "little")


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

"""All rows of a merged weight against its base plus the updates, without forming the products.

Each row is multiplied by one vector of random signs, as Freivalds checks products: a row and its
projection are left with the same size on average, and left @ right @ signs costs nothing. Rows whose
projection is off are named, to be looked at in full. Halves are widened by shifts of whole words,
in blocks that stay in a core's cache.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

from doctor.checkpoint.analysis.arithmetic import decode
from doctor.checkpoint.analysis.merging.products import Update
from doctor.checkpoint.analysis.merging.rows import Matrix, Range, Sides, read_rows_into
from doctor.checkpoint.dtypes import BITS
from doctor.checkpoint.io.open_files import OpenFiles

BLOCK = 1 << 18
"""Elements that are read at a time: as few as leave Python's own time small."""

GROUP = 64
"""Rows that are judged together, too: many small deviations add up."""

SIGMAS = 6
"""Standard deviations of a row, or of a group's sum of squares, beyond which it is looked at. Our
own number: a model has some million rows, and a look costs time only."""

HIGH, SIGNED = 0xFFFF0000, 0x8FFFE000
"""Bits of the upper bf16 of a word; of an fp16 that was moved to where a float32 has them."""


def is_possible(updates: Sequence[Update]) -> bool:
    """Whether the updates are linear in the base: DoRA's norms need the whole rows."""
    return all(p.product.magnitude is None for update in updates for p in update.pieces)


def left_over(sides: Sides, updates: Sequence[Update]) -> Any:
    """Of each row, what is left of its projection. Raises CheckpointError."""
    import numpy

    signs = _signs(sides.columns)
    left = -_projected(updates, signs, sides.rows)
    step = min(sides.rows, max(1, BLOCK // sides.columns))
    base, merged = _Side(sides.base_files, sides.base, step), _Side(sides.files, sides.merged, step)
    with numpy.errstate(over="ignore", invalid="ignore"):
        for begin in range(0, sides.rows, step):
            rows = begin, min(begin + step, sides.rows)
            sides.count([rows])
            before, after = base.read(rows), merged.read(rows)
            if sides.base.dtype == sides.merged.dtype == "F32":
                moved = numpy.subtract(after.view("<f4"), before.view("<f4"), out=merged.spare(rows))
                left[slice(*rows)] += moved.reshape(-1, sides.columns) @ signs
            else:
                left[slice(*rows)] += merged.project(after, signs) - base.project(before, signs)
    return left


def unlike(left: Any, measured: Sequence[int]) -> list[Range]:
    """Rows of which more is left than of those that were measured; `measured`: their numbers."""
    import numpy

    with numpy.errstate(over="ignore", invalid="ignore"):
        squares = numpy.square(left)
        usual = float(squares[measured].mean())
        suspect = ~(squares <= SIGMAS**2 * usual)
        starts = numpy.arange(0, len(squares), GROUP)
        counts = numpy.diff(numpy.append(starts, len(squares)))
        sums = numpy.add.reduceat(squares, starts)
        most = usual * counts * (1 + SIGMAS * numpy.sqrt(2 / counts))
    suspect |= numpy.repeat(~(sums <= most), counts)
    suspect[measured] = False
    return list(_ranges(suspect))


def _ranges(chosen: Any) -> Iterator[Range]:
    import numpy

    edges = numpy.flatnonzero(numpy.diff(numpy.concatenate([[0], chosen, [0]]).astype("i1")))
    for begin, end in edges.reshape(-1, 2).tolist():
        yield begin, end


@functools.lru_cache(maxsize=16)
def _signs(columns: int) -> Any:
    """The same in every run, so that a verdict is."""
    import numpy

    return numpy.random.default_rng(columns).choice(numpy.array([-1, 1], "f4"), columns)


def _projected(updates: Sequence[Update], signs: Any, rows: int) -> Any:
    """What the updates add to the projection of each row."""
    import numpy

    total = numpy.zeros(rows)
    for update in updates:
        for piece in update.pieces:
            end = min(piece.end, rows)
            added = piece.product.left @ (piece.product.right @ signs.astype("f8"))
            total[piece.begin : end] += added[: max(0, end - piece.begin)]
    return total


class _Side:
    """One of the two weights, with buffers for a block of its rows."""

    def __init__(self, files: OpenFiles, matrix: Matrix, rows: int) -> None:
        import numpy

        self._files, self._matrix = files, matrix
        self._data = bytearray(rows * matrix.columns * BITS[matrix.dtype] // 8)
        self._words = numpy.empty(len(self._data) // 4, "<u4")

    def read(self, rows: Range) -> Any:
        """The bytes of the rows. Raises CheckpointError."""
        import numpy

        data = read_rows_into(self._data, self._files, self._matrix, [rows])
        return numpy.frombuffer(data, "u1")

    def spare(self, rows: Range) -> Any:
        """A place for as many float32 numbers."""
        return self._words[: (rows[1] - rows[0]) * self._matrix.columns].view("<f4")

    def project(self, data: Any, signs: Any) -> Any:
        """The rows @ signs. Infinities of fp16 become large numbers."""
        import numpy

        columns, dtype = self._matrix.columns, self._matrix.dtype
        if dtype == "F64":
            return data.view("<f8").reshape(-1, columns) @ signs.astype("f8")
        if dtype == "F32" or columns % 2:
            return decode(dtype, data).reshape(-1, columns) @ signs
        halves = data.view("<u4")
        words = self._words[: halves.size]
        values = words.view("<f4").reshape(-1, columns // 2)
        numpy.left_shift(halves, numpy.uint32(16), out=words)
        if dtype == "BF16":
            total = values @ signs[::2].copy()
            numpy.bitwise_and(halves, numpy.uint32(HIGH), out=words)
            return total + values @ signs[1::2].copy()
        _float_at_wrong_scale(words)
        total = values @ signs[::2].copy()
        words[:] = halves
        _float_at_wrong_scale(words)
        return (total + values @ signs[1::2].copy()).astype("f8") * 2.0**112


def _float_at_wrong_scale(words: Any) -> None:
    """The fp16 in the upper half of each word as a float32 that is 2**112 times too small."""
    import numpy

    signed = words.view("<i4")
    numpy.right_shift(signed, 3, out=signed)
    numpy.bitwise_and(words, numpy.uint32(SIGNED), out=words)

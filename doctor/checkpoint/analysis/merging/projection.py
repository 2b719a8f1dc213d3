"""All rows of a merged weight against its base plus the updates, without forming the products.

Each row is multiplied by a vector of random signs, as Freivalds checks products: a row and its
projection have the same size on average, and left @ (right @ signs) costs nothing. Rows whose
projection is off are named, to be looked at in full.

Two halves lie in a word. The upper one is taken as a float32 as it is: the bits of the lower one
are less than its last place, and nearly cancel where merged and base are subtracted. What they
leave is in the rows that were measured, too.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from doctor.checkpoint.analysis.arithmetic import decode
from doctor.checkpoint.analysis.merging.products import Update
from doctor.checkpoint.analysis.merging.rows import Matrix, Range, Sides
from doctor.checkpoint.io.gather import fill
from doctor.checkpoint.io.open_files import OpenFiles

if TYPE_CHECKING:
    from doctor.checkpoint.analysis.arithmetic import Array

BLOCK = 1 << 17
"""Elements that are read at a time: few enough for a core's cache, as bytes and as numbers."""

VECTORS = 16
"""Of signs, in turn: rows that lack the same product of rank 1 would all be hidden by one that is
at a right angle to it."""

GROUP = 64
"""Rows that are judged together, too: many small deviations add up."""

SIGMAS = 6
"""Standard deviations of a row, or of a group's sum of squares, beyond which it is looked at. Our
own number: a model has some million rows, and a look costs time only."""

SIGNED = 0x8FFFFFFF
"""Bits of an fp16 that was moved to where a float32 has them."""


def is_possible(updates: Sequence[Update]) -> bool:
    """Whether the updates are linear in the base: DoRA's norms need the whole rows."""
    return all(p.product.magnitude is None for update in updates for p in update.pieces)


@dataclass(frozen=True, slots=True)
class Projections:
    """Of each row."""

    left: Array
    """What is left of the merged row."""
    base: Array


def project(sides: Sides, updates: Sequence[Update]) -> Projections:
    """Read all rows. Raises CheckpointError."""
    import numpy

    step = min(sides.rows, max(1, min(BLOCK // sides.columns, GROUP)))
    signs = signs_of(sides.columns)
    left, bases = -_projected(updates, signs, sides.rows, step), numpy.empty(sides.rows)
    base = _Side(sides.base_files, sides.base, step)
    merged = _Side(sides.files, sides.merged, step)
    with numpy.errstate(over="ignore", invalid="ignore"):
        for number, begin in enumerate(range(0, sides.rows, step)):
            end, own = min(begin + step, sides.rows), signs[number % VECTORS]
            before, after = base.read(begin, end), merged.read(begin, end)
            bases[begin:end] = base.project(before, own)
            if sides.base.dtype == sides.merged.dtype == "F32":
                left[begin:end] += merged.project_change(after, before, own)
            else:
                left[begin:end] += merged.project(after, own) - bases[begin:end]
    sides.count([(0, sides.rows)])
    return Projections(left, bases)


def unlike(
    found: Projections, measured: Sequence[int], residual: float, base: float
) -> list[Range]:
    """Rows of which more is left than of those that were measured, whose numbers are given.

    `residual`, `base`: the mean square of a whole row of them, of what is left and of the base.
    Roundings grow with the numbers, so that of rows with a larger base more may be left.
    """
    import numpy

    with numpy.errstate(over="ignore", invalid="ignore"):
        squares = numpy.square(found.left)
        starts = numpy.arange(0, len(squares), GROUP)
        counts = numpy.diff(numpy.append(starts, len(squares)))
        sizes = numpy.add.reduceat(numpy.square(found.base), starts) / counts
        growth = numpy.fmax(1, sizes / (base or numpy.inf))
        usual = max(residual, float(squares[measured].mean())) * growth
        far = numpy.add.reduceat(squares, starts) / counts
        off = ~(far <= usual * (1 + SIGMAS * numpy.sqrt(2 / counts)))
        suspect = numpy.repeat(off, counts) | ~(squares <= SIGMAS**2 * numpy.repeat(usual, counts))
    suspect[measured] = False
    return list(_ranges(suspect))


def _ranges(chosen: Array) -> Iterator[Range]:
    import numpy

    edges = numpy.flatnonzero(numpy.diff(numpy.concatenate([[0], chosen, [0]]).astype("i1")))
    yield from map(tuple, edges.reshape(-1, 2).tolist())


@dataclass(frozen=True, slots=True)
class Signs:
    """A random vector of 1 and -1."""

    whole: Array
    lower: Array
    """Those of the lower halves of words: every second one."""
    upper: Array


@functools.lru_cache(maxsize=16)
def signs_of(columns: int) -> list[Signs]:
    """The same in every run, so that a verdict is."""
    import numpy

    choose = numpy.random.default_rng(columns).choice
    rows = choose(numpy.array([-1, 1], "f4"), (VECTORS, columns))
    return [Signs(row, row[::2].copy(), row[1::2].copy()) for row in rows]


def _projected(updates: Sequence[Update], signs: Sequence[Signs], rows: int, step: int) -> Array:
    """What the updates add to the projection of each row."""
    import numpy

    total, vectors = numpy.zeros(rows), numpy.stack([each.whole for each in signs]).T
    for update in updates:
        for piece in update.pieces:
            inner = piece.product.right @ vectors.astype("f8")
            at = numpy.arange(piece.begin, min(piece.end, rows))
            for number in range(VECTORS):
                own = at[at // step % VECTORS == number]
                total[own] += piece.product.left[own - piece.begin] @ inner[:, number]
    return total


class _Side:
    """One of the two weights, with buffers for a block of its rows."""

    def __init__(self, files: OpenFiles, matrix: Matrix, rows: int) -> None:
        import numpy

        self._files, self._matrix, self._parts = files, matrix, matrix.parts
        self._data = numpy.empty(rows * matrix.row_size, "u1")
        self._words = numpy.empty(self._data.size // 4, "<u4")

    def read(self, begin: int, end: int) -> Array:
        """The bytes of the rows. Raises CheckpointError."""
        size = self._matrix.row_size
        data = self._data[: (end - begin) * size]
        fill(self._files, self._parts, data.data, begin * size)
        return data

    def project_change(self, data: Array, before: Array, signs: Signs) -> object:
        """(The rows - those before) @ signs, of float32."""
        import numpy

        moved = self._words[: data.size // 4].view("<f4")
        numpy.subtract(data.view("<f4"), before.view("<f4"), out=moved)
        return numpy.dot(moved.reshape(-1, self._matrix.columns), signs.whole)

    def project(self, data: Any, signs: Signs) -> Any:
        """The rows @ signs. Infinities of fp16 become large numbers."""
        columns, dtype = self._matrix.columns, self._matrix.dtype
        if dtype == "F64":
            return data.view("<f8").reshape(-1, columns) @ signs.whole.astype("f8")
        if dtype == "F32" or columns % 2:
            return decode(dtype, data).reshape(-1, columns) @ signs.whole
        return self._project_halves(data.view("<u4"), dtype, signs)

    def _project_halves(self, halves: Array, dtype: str, signs: Signs) -> object:
        import numpy

        words = self._words[: halves.size]
        shape = (-1, self._matrix.columns // 2)
        values = words.view("<f4").reshape(shape)
        if dtype == "BF16":
            upper = numpy.dot(halves.view("<f4").reshape(shape), signs.upper)
            numpy.left_shift(halves, numpy.uint32(16), out=words)
            return upper + numpy.dot(values, signs.lower)
        _shift_to_floats(halves, words)
        upper = numpy.dot(values, signs.upper)
        numpy.left_shift(halves, numpy.uint32(16), out=words)
        _shift_to_floats(words, words)
        return (upper + numpy.dot(values, signs.lower)).astype("f8") * 2.0**112


def _shift_to_floats(halves: Array, words: Array) -> None:
    """The fp16 in the upper half of each word as a float32 that is 2**112 times too small."""
    import numpy

    numpy.right_shift(halves.view("<i4"), 3, out=words.view("<i4"))
    numpy.bitwise_and(words, numpy.uint32(SIGNED), out=words)

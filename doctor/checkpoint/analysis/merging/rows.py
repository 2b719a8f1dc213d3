"""Rows of a stored matrix, read without the rest of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from doctor.checkpoint.analysis.arithmetic import FLOATS, decode
from doctor.checkpoint.dtypes import BITS
from doctor.checkpoint.io.gather import fill
from doctor.checkpoint.io.open_files import OpenFiles
from doctor.checkpoint.tensors import Tensor

if TYPE_CHECKING:
    from doctor.checkpoint.analysis.arithmetic import Array

BLOCK = 1 << 14
"""Elements that are compared at a time: few enough for a dozen arrays of them in a core's cache."""

Range = tuple[int, int]
"""Rows from the first to before the second."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """A tensor as rows of one length; or several of one dtype, the first above the others."""

    tensors: tuple[Tensor, ...]
    columns: int

    @property
    def rows(self) -> int:
        return sum(tensor.elements for tensor in self.tensors) // max(self.columns, 1)

    @property
    def dtype(self) -> str:
        return self.tensors[0].dtype

    @property
    def name(self) -> str:
        return self.tensors[0].name

    @property
    def row_size(self) -> int:
        """Bytes."""
        return self.columns * BITS[self.dtype] // 8

    @property
    def parts(self) -> list[tuple[str, int, int]]:
        """File, begin and end of the bytes."""
        return [part for tensor in self.tensors for part in tensor.ranges]

    @property
    def readable(self) -> bool:
        """Whether its rows can be read as numbers: floats of one dtype in C order."""
        return all(
            tensor.dtype == self.dtype and tensor.dtype in FLOATS and tensor.strides is None
            for tensor in self.tensors
        )


def matrix_of(tensor: Tensor) -> Matrix:
    """All dimensions but the first are the columns; a vector is one row."""
    shape = tensor.shape
    columns = math.prod(shape[1:]) if len(shape) > 1 else tensor.elements
    return Matrix((tensor,), max(columns, 1))


def read_rows(files: OpenFiles, matrix: Matrix, ranges: Sequence[Range]) -> Array:
    """The rows of all ranges below each other, float32. Raises CheckpointError."""
    count = sum(end - begin for begin, end in ranges)
    data = bytearray(count * matrix.row_size)
    parts, view, done = matrix.parts, memoryview(data), 0
    for begin, end in ranges:
        size = (end - begin) * matrix.row_size
        fill(files, parts, view[done : done + size], begin * matrix.row_size)
        done += size
    return decode(matrix.dtype, data).reshape(count, matrix.columns)


@dataclass(slots=True)
class Sides:
    """The rows that a base and a merged weight both have."""

    base_files: OpenFiles
    base: Matrix
    files: OpenFiles
    merged: Matrix
    rows: int
    read: int = 0
    """Bytes."""

    @property
    def columns(self) -> int:
        return self.base.columns

    def at(self, ranges: Sequence[Range]) -> tuple[Array, Array]:
        """Rows of the base and of the merged weight, float32. Raises CheckpointError."""
        self.count(ranges)
        base = read_rows(self.base_files, self.base, ranges)
        return base, read_rows(self.files, self.merged, ranges)

    def count(self, ranges: Sequence[Range]) -> None:
        """Note that the rows are read."""
        rows = sum(end - begin for begin, end in ranges)
        bits = BITS[self.base.dtype] + BITS[self.merged.dtype]
        self.read += rows * self.columns * bits // 8


def blocks(rows: int, columns: int, most: int | None) -> Iterator[list[Range]]:
    """Ranges of rows of about BLOCK elements: of all rows, or of about `most` elements.

    Those are spread over the whole length, with the first row and the last.
    """
    each = max(1, BLOCK // max(columns, 1))
    if most is None or rows * columns <= most:
        yield from split([(0, rows)], columns)
        return
    count = max(2, min(rows, most // max(columns, 1)))
    single = [round(number * (rows - 1) / (count - 1)) for number in range(count)]
    for at in range(0, count, each):
        yield [(row, row + 1) for row in single[at : at + each]]


def split(ranges: Iterable[Range], columns: int) -> Iterator[list[Range]]:
    """The rows of all ranges in blocks of at most about BLOCK elements."""
    each = max(1, BLOCK // max(columns, 1))
    for begin, end in ranges:
        yield from ([(at, min(at + each, end))] for at in range(begin, end, each))


def numbers(ranges: Sequence[Range]) -> Array:
    """The numbers of the rows of all ranges."""
    import numpy

    return numpy.concatenate([numpy.arange(begin, end) for begin, end in ranges])

"""Parameters cut out of the flat vectors that ZeRO keeps, by arithmetic alone."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from doctor._util.units import shown
from doctor.checkpoint.dtypes import BITS
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.tensors import Part, Tensor

Shapes = dict[str, tuple[int, ...]]


class Vector:
    """Flat tensors end to end, from which ranges are cut."""

    def __init__(self, pieces: Sequence[Tensor]) -> None:
        self.pieces = [piece for piece in pieces if piece.elements]
        self.ends = list(accumulate(piece.elements for piece in self.pieces))

    @property
    def elements(self) -> int:
        return self.ends[-1] if self.ends else 0

    def cut(self, begin: int, end: int) -> list[Part]:
        """The bytes of the elements from `begin` to before `end`. Raises CheckpointError."""
        if end > self.elements:
            raise CheckpointError(
                "damaged", "has flat groups that are shorter than what is in them"
            )
        ranges = []
        index = bisect_right(self.ends, begin)
        while begin < end:
            piece = self.pieces[index]
            first = self.ends[index] - piece.elements
            stop = min(end, self.ends[index])
            width = BITS.get(piece.dtype, 0) // 8
            if piece.strides is not None or piece.parts or not width:
                raise CheckpointError(
                    "not-inspectable", "has flat groups that are no plain vectors"
                )
            at = piece.begin - first * width
            ranges.append(Part(piece.file, at + begin * width, at + stop * width))
            begin, index = stop, index + 1
        return ranges


def group_slices(groups: Sequence[Shapes], ranks: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """ZeRO 1 and 2: each group's parameters end to end, the whole divided over the ranks.

    Raises CheckpointError where they do not fill what the ranks hold, but for padding.
    """
    tensors = []
    for number, shapes in enumerate(groups):
        if any(len(flats) != len(groups) for flats in ranks):
            text = f"{len(groups)} groups of parameters, and files of another number of them"
            raise CheckpointError("damaged", f"has {text}")
        whole = Vector([flats[number] for flats in ranks])
        at = 0
        for name, shape in shapes.items():
            elements = math.prod(shape)
            parts = whole.cut(at, at + elements)
            tensors.append(_tensor(name, shape, parts, whole.pieces))
            at += elements
        _filled(at, whole.elements, 2 * len(ranks))
    return tensors


def rank_slices(groups: Sequence[Shapes], ranks: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """ZeRO 3: every parameter divided over the ranks, each slice rounded up.

    Raises CheckpointError.
    """
    vectors = [Vector(flats) for flats in ranks]
    tensors, at = [], 0
    for name, shape in (item for shapes in groups for item in shapes.items()):
        elements = math.prod(shape)
        each = -(-elements // len(ranks)) if ranks else 0
        parts = []
        for number, vector in enumerate(vectors):
            real = min(each, max(0, elements - number * each))
            vector.cut(at, at + each)
            parts += vector.cut(at, at + real)
        tensors.append(_tensor(name, shape, parts, vectors[0].pieces))
        at += each
    for vector in vectors:
        _filled(at, vector.elements, 1)
    return tensors


def _filled(used: int, available: int, padding: int) -> None:
    """The padding is as the engine makes it: up to a multiple, and none beyond.

    Raises CheckpointError.
    """
    if -(-used // padding) != -(-available // padding):
        text = f"{available:,} elements in flat groups and parameters of {used:,}"
        raise CheckpointError("damaged", f"has {text}: the files are not of one save")


def _tensor(
    name: str, shape: tuple[int, ...], parts: list[Part], pieces: Sequence[Tensor]
) -> Tensor:
    dtypes = {piece.dtype for piece in pieces}
    if len(dtypes) > 1:
        raise CheckpointError(
            "not-inspectable", f"has flat groups of several dtypes for {shown(name)}"
        )
    dtype = dtypes.pop() if dtypes else "F32"
    first = parts[0] if parts else Part(pieces[0].file if pieces else "", 0, 0)
    several = tuple(parts) if len(parts) > 1 else ()
    return Tensor(name, dtype, shape, math.prod(shape), *first, None, several)

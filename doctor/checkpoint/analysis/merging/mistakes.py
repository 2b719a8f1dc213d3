"""What was added to a base in place of an adapter's product: other known results of a mistake."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from doctor._util.units import shown
from doctor.checkpoint.analysis.merging.adapter import Adapter
from doctor.checkpoint.analysis.merging.products import Piece, Product, Update, part_update
from doctor.checkpoint.analysis.merging.rows import blocks, matrix_of, numbers, read_rows
from doctor.checkpoint.analysis.merging.targets import Target
from doctor.checkpoint.analysis.statistics import layer_of
from doctor.checkpoint.analysis.tensor_names import role
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.open_files import OpenFiles
from doctor.checkpoint.records.merge import MergedWeight

if TYPE_CHECKING:
    from doctor.checkpoint.analysis.arithmetic import Array

MOST = 40
"""Weights that are looked at."""

ELEMENTS = 1 << 16
"""Of each weight that are compared."""

NEIGHBOURS = 2
"""Layers above and below, whose products are tried, too."""

EXPLAINED = 0.9
"""Share of the movement that something else has to explain. Our own number."""

NEAR = 0.1
"""How far from 1 the scale of it may lie. Our own number."""

TRANSPOSED = "its product, transposed"
PLAIN = "its product without the magnitudes of DoRA"
IN_PART = "its product in a part of the rows alone"
OF_ANOTHER = "the product of"


def is_unlike(weight: MergedWeight) -> bool:
    """Whether the update explains little of the movement."""
    unlike = weight.residual > 3 * weight.bound and weight.explained < EXPLAINED
    return unlike and weight.changed > 0 and not (weight.quantized or weight.nonfinite)


def explain(
    weight: MergedWeight,
    targets: Sequence[Target],
    adapters: Sequence[Adapter],
    opened: Sequence[OpenFiles],
) -> str:
    """What the weight is its base plus, "" where none of the known mistakes gives it.

    `opened`: the files of the merged model, of the base and of the adapters.
    """
    target = next(each for each in targets if each.base.name[:500] == weight.name)
    if len(target.parts) != 1 or target.merged is None or target.merged.shape != target.base.shape:
        return ""
    base, merged = matrix_of(target.base), matrix_of(target.merged)
    ranges = [each for block in blocks(base.rows, base.columns, ELEMENTS) for each in block]
    before = read_rows(opened[1], base, ranges)
    moved = read_rows(opened[0], merged, ranges) - before
    rows = numbers(ranges)
    for text, update in _candidates(target, targets, adapters, opened):
        if _explains(moved, update.delta(before, rows)):
            return text
    own = _update(target, adapters, opened)
    return IN_PART if own and _in_part(moved, own.delta(before, rows)) else ""


def _candidates(
    target: Target,
    targets: Sequence[Target],
    adapters: Sequence[Adapter],
    opened: Sequence[OpenFiles],
) -> Iterator[tuple[str, Update]]:
    own = _update(target, adapters, opened)
    single = own.pieces[0].product if own and len(own.pieces) == 1 else None
    if own and single:
        if single.magnitude is not None:
            yield PLAIN, _of(own, replace(single, magnitude=None, norms=None))
        elif single.left.shape[0] == single.right.shape[1]:
            yield TRANSPOSED, _of(own, replace(single, left=single.right.T, right=single.left.T))
    for other in targets:
        if (
            other is not target
            and other.base.shape == target.base.shape
            and _is_near(target, other)
            and (update := _update(other, adapters, opened))
        ):
            yield f"{OF_ANOTHER} {shown(other.base.name, 200)}", update


def _of(update: Update, product: Product) -> Update:
    return replace(update, pieces=(Piece(0, len(product.left), product),))


def _is_near(one: Target, other: Target) -> bool:
    """In the same layer, or of the same role some layers away; of one adapter."""
    layer, another = layer_of(one.base), layer_of(other.base)
    if len(other.parts) != 1 or other.parts[0][0] != one.parts[0][0]:
        return False
    if layer == another or not (layer and another):
        return layer == another
    same = role(one.base.name) == role(other.base.name)
    return same and abs(int(layer) - int(another)) <= NEIGHBOURS


def _update(
    target: Target, adapters: Sequence[Adapter], opened: Sequence[OpenFiles]
) -> Update | None:
    number, part = target.parts[0]
    with contextlib.suppress(CheckpointError, MemoryError):
        return part_update(adapters[number], number, part, target.base, opened[2 + number])
    return None


def _explains(moved: Array, change: Array) -> bool:
    """Whether the movement is the change, at its scale."""
    import numpy

    size, length = float(numpy.square(change).sum()), float(numpy.square(moved).sum())
    along = float((moved * change).sum())
    if not (size and length):
        return False
    return along**2 >= EXPLAINED * size * length and abs(along / size - 1) <= NEAR


def _in_part(moved: Array, change: Array) -> bool:
    """Whether some rows have all of the change, and the others none."""
    import numpy

    size = numpy.square(change).sum(axis=1)
    left = numpy.square(moved - change).sum(axis=1)
    none = ~moved.any(axis=1)
    have = left <= (1 - EXPLAINED) * size
    return bool(none.any() and have.any() and (none | have).all())

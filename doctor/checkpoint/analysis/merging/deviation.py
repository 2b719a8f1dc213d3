"""One merged weight against its base plus the updates, in bulk.

The library's own order of operations leaves more than half a unit in the last place, so elements
are never compared one by one: sums of squares are, with a bound from the operands' dtypes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from doctor.checkpoint.analysis.arithmetic import rounded, spacing
from doctor.checkpoint.analysis.merging.products import Update
from doctor.checkpoint.analysis.merging.quantized import kind_of_both, kind_of_quantization

if TYPE_CHECKING:
    from doctor.checkpoint.analysis.arithmetic import Array

KEPT = 20_000
"""Elements of a weight that are kept to estimate the scale from updates near a rounding."""

ALIKE = 1.5
"""Times the squares of what is left of the blocks that were measured. Our own number: a block has
thousands of elements, and a product that it lacks is several times their rounding."""

ENOUGH = 200
"""Elements with updates well above the rounding, from which a scale is estimated directly."""


OFF, OFF_OF_UPDATE = 3, 0.5
"""Times the bound of a row's roundings, and of its update, from which it is off. Our own numbers:
PEFT's merges leave less than the bound, and a row that was left out lacks all of its update."""


@dataclass(slots=True)
class Sums:
    """Of one weight, over the elements that were read."""

    elements: int = 0
    base: float = 0.0
    """Sum of squares, as of the next ones."""
    update: float = 0.0
    moved: float = 0.0
    """merged - base, rounded to the merged dtype."""
    residual: float = 0.0
    """merged - (base + update), not rounded."""
    mismatch: float = 0.0
    """merged - round(base + update)."""
    bound: float = 0.0
    """What the roundings of the merge may leave at most."""
    kept: float = 0.0
    """update * (round(base + update) - round(base)): what of the update the dtype keeps."""
    aligned: float = 0.0
    """moved * update, and update * update, of elements whose update is well above the rounding."""
    strong: float = 0.0
    strong_moved: float = 0.0
    strong_count: int = 0
    changed: int = 0
    expected: int = 0
    """Elements that the update changes once it is rounded."""
    nonfinite: int = 0
    rows: int = 0
    rows_off: int = 0
    """Of these, rows of which by themselves more is left than roundings leave."""
    first_off: int | None = None
    residual_of_others: float = 0.0
    """Of the rows that are not off."""
    grid: str = ""
    """The dtype that the merged values were rounded to."""
    wide: bool = False
    """The sum was made from the base as it is stored, and rounded once."""
    quantized: str = ""
    """The kind of quantization of the base that explains the rest of the first block."""
    requantized: str = ""
    """The same where the sum was rounded to it again."""
    near: list[tuple[Array, Array, Array]] = field(default_factory=list)
    """(base, update, merged) of elements whose update is near the rounding."""
    near_count: int = 0
    gram: Any = None
    """With several adapters: products of their updates, and of these with merged - base."""
    against: Any = None


def add(sums: Sums, base: Array, merged: Array, updates: Sequence[Update], rows: Array) -> None:
    """One block of rows, float32 matrices of one shape."""
    import numpy

    with numpy.errstate(over="ignore", invalid="ignore"):
        _add(sums, base, merged, updates, rows)


def is_alike(
    sums: Sums, base: Array, merged: Array, updates: Sequence[Update], rows: Array
) -> bool:
    """Whether what is left of one more block is as small as of those that were measured."""
    import numpy

    if not sums.elements:
        return False
    with numpy.errstate(over="ignore", invalid="ignore"):
        expected, _ = _sum(base if sums.wide else rounded(sums.grid, base), updates, rows)
        numpy.subtract(merged, expected, out=expected)
        left = _squares(expected)
    return bool(left <= ALIKE * sums.residual / sums.elements * merged.size)


def _add(sums: Sums, base: Array, merged: Array, updates: Sequence[Update], rows: Array) -> None:
    import numpy

    grid, start = sums.grid, rounded(sums.grid, base)
    if not sums.elements:
        sums.wide = _is_wide(grid, base, start, merged, updates, rows)
    origin = base if sums.wide else start
    expected, deltas = _sum(origin, updates, rows)
    whole = expected - origin
    finite = numpy.isfinite(merged) & numpy.isfinite(expected)
    if not finite.all():
        sums.nonfinite += int(finite.size - numpy.count_nonzero(finite))
        start, origin, merged, expected, whole = (
            numpy.where(finite, each, numpy.float32(0))
            for each in (start, origin, merged, expected, whole)
        )
        deltas = [numpy.where(finite, each, numpy.float32(0)) for each in deltas]
    result, moved = rounded(grid, expected), merged - origin
    bound = _bound(grid, expected, merged, deltas, updates)
    if not sums.elements and _squares(merged - expected) > 9 * _squares(bound):
        sums.quantized = kind_of_quantization(base, whole, merged)
        sums.requantized = "" if sums.quantized else kind_of_both(base, whole, merged)
    sums.elements += merged.size
    sums.base += _squares(start)
    sums.update += _squares(whole)
    sums.moved += _squares(moved)
    _add_rows(sums, merged - expected, bound, whole, rows)
    sums.mismatch += _squares(merged - result)
    sums.kept += _dot(whole, result - start)
    sums.changed += int(numpy.count_nonzero(merged != start))
    sums.expected += int(numpy.count_nonzero(result != start))
    _measure_scale(sums, origin, whole, merged, bound)
    if len(deltas) > 1:
        _measure_each(sums, deltas, moved)


def _add_rows(sums: Sums, rest: Array, bound: Array, whole: Array, rows: Array) -> None:
    """What is left, and what roundings may leave, with the rows that have more of the first."""
    sums.rows += len(rows)
    left, most = _squares_of_rows(rest), _squares_of_rows(bound)
    sums.residual += float(left.sum(dtype="f8"))
    sums.bound += float(most.sum(dtype="f8"))
    far = (left > OFF**2 * most) & (left > OFF_OF_UPDATE**2 * _squares_of_rows(whole))
    sums.residual_of_others += float(left[~far].sum(dtype="f8"))
    off = rows[far]
    if off.size:
        first = int(off.min())
        sums.first_off = first if sums.first_off is None else min(first, sums.first_off)
        sums.rows_off += int(off.size)


def _sum(origin: Array, updates: Sequence[Update], rows: Array) -> tuple[Array, list[Array]]:
    """Base plus updates, in float32, and each of the updates."""
    total, deltas = origin, []
    for update in updates:
        deltas.append(update.delta(total, rows))
        total = total + deltas[-1]
    return total, deltas


def _is_wide(
    grid: str, base: Array, start: Array, merged: Array, updates: Sequence[Update], rows: Array
) -> bool:
    """Whether the merged values are nearer to the sum from the base that was not rounded first."""
    if (start == base).all():
        return False
    near, far = (
        _squares(merged - rounded(grid, _sum(origin, updates, rows)[0])) for origin in (base, start)
    )
    return near < far


def _bound(
    grid: str, expected: Array, merged: Array, deltas: Sequence[Array], updates: Sequence[Update]
) -> Array:
    """Half a unit for each sum and for the cast to the grid; one of the product's dtype."""
    import numpy

    unit = spacing(grid, numpy.maximum(numpy.abs(expected), numpy.abs(merged)))
    bound = unit * numpy.float32(0.5 * (len(updates) + 1))
    for delta, update in zip(deltas, updates, strict=True):
        if update.half:
            bound = bound + spacing(update.half, delta)
    return bound


def _measure_scale(sums: Sums, origin: Array, whole: Array, merged: Array, bound: Array) -> None:
    import numpy

    size = numpy.abs(whole)
    strong = size > 4 * bound
    count = int(numpy.count_nonzero(strong))
    if count:
        update = numpy.where(strong, whole, 0)
        movement = numpy.where(strong, merged - origin, 0)
        sums.aligned += _dot(update, movement)
        sums.strong_moved += _squares(movement)
        sums.strong += _squares(update)
        sums.strong_count += count
    if sums.strong_count < ENOUGH and sums.near_count < KEPT:
        near = numpy.flatnonzero(size > 0.05 * bound)[: KEPT - sums.near_count]
        sums.near_count += near.size
        sums.near.append((origin.ravel()[near], whole.ravel()[near], merged.ravel()[near]))


def _measure_each(sums: Sums, deltas: Sequence[Array], moved: Array) -> None:
    import numpy

    flat = numpy.stack([delta.ravel() for delta in deltas]).astype("f8")
    gram, against = flat @ flat.T, flat @ moved.ravel().astype("f8")
    sums.gram = gram if sums.gram is None else sums.gram + gram
    sums.against = against if sums.against is None else sums.against + against


def _squares(values: Array) -> float:
    return _dot(values, values)


def _dot(one: Array, other: Array) -> float:
    """In float32 over a row of a block, in float64 over the rows."""
    import numpy

    return float(numpy.einsum("ij,ij->i", one, other).sum(dtype="f8"))


def _squares_of_rows(values: Any) -> Any:
    import numpy

    return numpy.einsum("ij,ij->i", values, values)


def scale(sums: Sums) -> tuple[float | None, float]:
    """By how much of the update the weight moved, 1 for a right merge; and the share of the
    movement that this explains. None: too little moved."""
    if sums.strong_count >= ENOUGH and sums.strong > 0:
        best, moved = sums.aligned / sums.strong, sums.strong_moved
        return best, 1 - (moved - best * sums.aligned) / moved if moved else 0.0
    return _scale_near(sums)


def factors(sums: Sums) -> tuple[float, ...]:
    """The same for each of several adapters; () where they cannot be distinguished."""
    import numpy

    if sums.gram is None:
        return ()
    size = numpy.sqrt(numpy.diag(sums.gram))
    if not (size > 0).all() or numpy.linalg.cond(sums.gram / numpy.outer(size, size)) > 1e4:
        return ()
    return tuple(float(each) for each in numpy.linalg.solve(sums.gram, sums.against))


def _scale_near(sums: Sums) -> tuple[float | None, float]:
    """The scale at which the rounded sum is nearest to the merged values."""
    import numpy

    if not sums.near:
        return None, 0.0
    start, update, merged = (numpy.concatenate(each) for each in zip(*sums.near, strict=True))
    if numpy.count_nonzero(merged != rounded(sums.grid, start)) < 30:
        return None, 0.0

    def distance(factor: float) -> float:
        wrong = merged - rounded(sums.grid, start + numpy.float32(factor) * update)
        return float(numpy.square(wrong, dtype="f8").sum())

    grid = [0.0, *(sign * 2.0 ** (step / 4) for sign in (1, -1) for step in range(-24, 25))]
    best = min(grid, key=distance)
    for width in (0.1, 0.03, 0.01):
        near = [best * (1 + width * step) for step in (-2, -1, 0, 1, 2)]
        best = min([*near, 1.0], key=distance)
    return float(best), 1 - distance(best) / (distance(0.0) or 1.0)

"""What one matrix is to another one that it should be equal to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from doctor.checkpoint.analysis.merging.quantized import kind_of_quantization

if TYPE_CHECKING:
    from doctor.checkpoint.analysis.arithmetic import Array

REST = 1e-4
"""Share of the squares that rounding to bf16 leaves of a multiple, at most. Our own number."""

NEAR = 0.02
"""How far from 1 a factor has to be. Our own number."""

ALIKE = 0.3
"""Cosine below which two matrices have nothing in common; 0 for random ones. Our own number."""

CORNER = 256
"""Rows and columns of a difference whose rank is looked at."""

LOW, EXPLAINED = 8, 0.98
"""The largest rank is one part in LOW of the corner, and explains so much of the squares of the
difference. Our own numbers."""

FP8_LEAVES = 0x000FFFFF
"""Bits of the fraction of a float32 that fp8 does not have."""


def relation(here: Array, there: Array) -> str:
    """What explains the difference of two arrays of one shape, "" where nothing known does."""
    import numpy

    if not here.any() or not there.any():
        return f"zeros {'here' if there.any() else 'in the other'}"
    with numpy.errstate(over="ignore", invalid="ignore"):
        size, length = (float(numpy.square(each, dtype="f8").sum()) for each in (there, here))
        along = float(numpy.multiply(here, there, dtype="f8").sum())
    if not (numpy.isfinite(size) and numpy.isfinite(length)):
        return ""
    factor = along / size
    if length - along * factor <= REST * length and abs(factor - 1) > NEAR:
        return f"{factor:.3g} times the values of the other"
    if here.ndim != 2 or min(here.shape) < 2 or 2 * int((here == there).sum()) > here.size:
        return ""  # too few elements, or few that differ
    alike = abs(along) > ALIKE * (size * length) ** 0.5
    return _of_matrices(here, there) if alike else "nothing in common with the other"


def _of_matrices(here: Array, there: Array) -> str:
    if kind := _quantization(here, there):
        return f"rounded to {kind} on the way"
    if rank := _low_rank(here - there):
        return f"a difference of rank {rank} or less, as a merged LoRA leaves"
    return ""


def _quantization(here: Any, there: Any) -> str:
    import numpy

    for one, other in ((here, there), (there, here)):
        if kind := kind_of_quantization(other, numpy.float32(0), one):
            return kind
        short = not (one.view("<u4") & FP8_LEAVES).any()
        if short and (other.view("<u4") & FP8_LEAVES).any():
            return "fp8"
    return ""


def _low_rank(difference: Array) -> int:
    """The rank that explains nearly all of a corner of a difference; 0 where none is low."""
    import numpy

    corner = difference[:CORNER, :CORNER]
    if not numpy.isfinite(corner).all():
        return 0
    squares = numpy.square(numpy.linalg.svd(corner, compute_uv=False), dtype="f8")
    share = numpy.cumsum(squares) / (squares.sum() or 1)
    rank = int(numpy.searchsorted(share, EXPLAINED)) + 1
    return rank if squares.any() and rank <= min(corner.shape) // LOW else 0

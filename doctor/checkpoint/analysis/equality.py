"""Whether two stored tensors hold the same values, byte for byte or after a cast."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from doctor.checkpoint.analysis.arithmetic import FLOATS, decode, rounded
from doctor.checkpoint.dtypes import BITS
from doctor.checkpoint.io.gather import fill
from doctor.checkpoint.io.open_files import OpenFiles
from doctor.checkpoint.tensors import Tensor

if TYPE_CHECKING:
    from doctor.checkpoint.analysis.arithmetic import Array

CHUNK = 1 << 18
"""Bytes of one tensor that are compared at a time: those of both stay in a core's cache."""

Outcome = Literal["equal", "cast", "differs", "reshaped", "unread"]


@dataclass(slots=True)
class Difference:
    """How one tensor compares with another."""

    outcome: Outcome
    reason: str = ""
    """Why it could not be read; the cast."""
    elements: int = 0
    """That differ."""
    largest: float = 0.0
    """Difference."""
    squares: float = 0.0
    """Of the differences."""
    size: float = 0.0
    """Sum of squares of the other tensor's values."""
    read: int = 0
    halves: set[str] = field(default_factory=lambda: {"BF16", "F16"})
    """Dtypes that rounding one of them to makes the other, in all that was looked at."""

    @property
    def relative(self) -> float:
        """Norm of the difference by that of the other tensor."""
        return math.sqrt(self.squares / self.size) if self.size else math.inf


def compare_tensors(
    one_files: OpenFiles,
    one: Tensor,
    other_files: OpenFiles,
    other: Tensor,
    rows: int | None = None,
) -> Difference:
    """All elements; with `rows`, those of the first rows of both. Raises CheckpointError.

    A cast is one of the two, rounded to the dtype of the other.
    """
    if rows is None and one.shape != other.shape:
        return Difference("reshaped", f"{list(one.shape)} and {list(other.shape)}")
    if not (one.strides is None and other.strides is None):
        return _strided(one, other)
    elements = one.elements if rows is None else math.prod((rows, *one.shape[1:]))
    if one.dtype == other.dtype and BITS.get(one.dtype, 0) >= 8:
        return _bytes(one_files, one, other_files, other, elements)
    if one.dtype in FLOATS and other.dtype in FLOATS:
        return _values(one_files, one, other_files, other, elements)
    return Difference("unread", f"{one.dtype} and {other.dtype}")


def _strided(one: Tensor, other: Tensor) -> Difference:
    same = one.strides == other.strides and one.dtype == other.dtype
    return Difference("unread", "in another order of elements" if not same else "not in C order")


def _bytes(
    one_files: OpenFiles, one: Tensor, other_files: OpenFiles, other: Tensor, elements: int
) -> Difference:
    """Equal bytes; numbers are looked at from the first chunk that differs on."""
    width = BITS[one.dtype] // 8
    result, total = Difference("equal"), elements * width
    left, right = bytearray(min(CHUNK, total)), bytearray(min(CHUNK, total))
    for at in range(0, total, CHUNK):
        size = min(CHUNK, total - at)
        if size < len(left):
            left, right = bytearray(size), bytearray(size)
        fill(one_files, one.ranges, left, at)
        fill(other_files, other.ranges, right, at)
        result.read += 2 * size
        if left != right:
            result.outcome = "differs"
            if one.dtype not in FLOATS:
                result.elements += sum(
                    a != b for a, b in zip(left[::width], right[::width], strict=True)
                )
                continue
            _count(result, decode(one.dtype, left), decode(one.dtype, right))
        elif result.outcome == "differs" and one.dtype in FLOATS:
            result.size += float(_squares(decode(one.dtype, right)))
    if result.outcome == "differs" and one.dtype in FLOATS and not result.elements:
        result.outcome = "equal"  # zeros of both signs, or NaN of one payload and another
    if result.outcome == "differs" and result.halves and one.dtype in ("F32", "F64"):
        result.reason = f"one of them was rounded to {min(result.halves)} on the way"
    return result


def _values(
    one_files: OpenFiles, one: Tensor, other_files: OpenFiles, other: Tensor, elements: int
) -> Difference:
    result = Difference("cast", f"{other.dtype} to {one.dtype}")
    widths, step = (BITS[one.dtype] // 8, BITS[other.dtype] // 8), CHUNK // 8
    for at in range(0, elements, step):
        count = min(step, elements - at)
        left, right = bytearray(count * widths[0]), bytearray(count * widths[1])
        fill(one_files, one.ranges, left, at * widths[0])
        fill(other_files, other.ranges, right, at * widths[1])
        result.read += len(left) + len(right)
        now, then = decode(one.dtype, left), decode(other.dtype, right)
        if not (_same(now, rounded(one.dtype, then)) or _same(rounded(other.dtype, now), then)):
            result.outcome = "differs"
            _count(result, now, rounded(one.dtype, then))
    if result.outcome == "differs":
        result.reason = ""
    return result


def _same(one: Array, other: Array) -> bool:
    import numpy

    return bool(((one == other) | (numpy.isnan(one) & numpy.isnan(other))).all())


def _count(result: Difference, one: Array, other: Array) -> None:
    import numpy

    with numpy.errstate(over="ignore", invalid="ignore"):
        result.halves = {half for half in result.halves if _is_rounded(half, one, other)}
        wrong = one - other
        differs = (one != other) & ~(numpy.isnan(one) & numpy.isnan(other))
        wrong[~differs] = 0
        result.elements += int(numpy.count_nonzero(differs))
        finite = numpy.where(numpy.isfinite(wrong), wrong, 0)
        result.largest = max(result.largest, float(numpy.abs(finite).max(initial=0)))
        result.squares += float(_squares(finite))
        result.size += float(_squares(numpy.where(numpy.isfinite(other), other, 0)))


def _is_rounded(half: str, one: Array, other: Array) -> bool:
    return _same(rounded(half, one), other) or _same(one, rounded(half, other))


def _squares(values: Any) -> Any:
    import numpy

    return numpy.square(values, dtype="f8").sum()

"""What a base becomes that was quantized and expanded again before the merge."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from doctor.checkpoint.analysis.arithmetic import Array

BLOCK = 64
"""Elements that share a scale in bitsandbytes' four bits."""

NF4 = (
    *(-1.0, -0.6961928, -0.52507305, -0.3949175, -0.28444138, -0.18477343, -0.09105004, 0.0),
    *(0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1.0),
)
FP4 = tuple(
    sign * value
    for sign in (-1, 1)
    for value in (0.0, 0.0052083333, 1 / 6, 0.25, 1 / 3, 0.5, 2 / 3, 1.0)
)
"""The values of four bits, relative to the largest of a block."""


def _four_bits(values: Any, code: tuple[float, ...]) -> Any | None:
    import numpy

    if values.shape[1] % BLOCK:
        return None
    blocks = values.reshape(-1, BLOCK)
    largest = numpy.abs(blocks).max(axis=1, keepdims=True)
    table = numpy.sort(numpy.array(code, "f4"))
    middles = (table[1:] + table[:-1]) / 2
    nearest = table[numpy.searchsorted(middles, blocks / numpy.where(largest == 0, 1, largest))]
    return (nearest * largest).reshape(values.shape)


def _eight_bits(values: Any) -> object:
    import numpy

    step = numpy.abs(values).max(axis=1, keepdims=True) / numpy.float32(127)
    step[step == 0] = 1
    return numpy.rint(values / step) * step


KINDS: dict[str, Callable[[Any], Any | None]] = {
    "nf4": lambda values: _four_bits(values, NF4),
    "fp4": lambda values: _four_bits(values, FP4),
    "int8": _eight_bits,
}
"""Kinds of bitsandbytes -> rows of a base to what is left of them."""

EXPLAINED = 0.25
"""Share of the squared rest that may remain where the base was quantized. Our own number: the
scales of blocks are quantized too, which leaves a hundredth."""


def kind_of_quantization(base: Any, change: Any, merged: Any) -> str:
    """The kind after which base + change is what was merged, "" for none."""
    return _kind(base, change, merged, again=False)


def kind_of_both(base: Array, change: Array, merged: Array) -> str:
    """The kind that base, and then base + change were rounded to, "" for none."""
    return _kind(base, change, merged, again=True)


def _kind(base: Array, change: Array, merged: Array, *, again: bool) -> str:
    before = _squares(merged - base - change)
    for kind, expand in KINDS.items():
        expanded = expand(base)
        if expanded is None:
            continue
        result = expanded + change
        after = _squares(merged - (expand(result) if again else result))
        if after <= EXPLAINED * before:
            return kind
    return ""


def _squares(values: Array) -> float:
    import numpy

    return float(numpy.square(values, dtype="f8").sum())

"""Stored numbers as float32 arrays, and what rounding to a dtype does to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]
    """Numbers of a tensor, of any shape and dtype."""

FLOATS = ("BF16", "F16", "F32", "F64")
"""Dtypes of weights that are compared as numbers."""

MANTISSA = {"BF16": 7, "F16": 10, "F32": 23, "F64": 23}
"""Stored bits of the fraction; F64 is compared in float32."""


LOW_HALF = 0xFFFF
"""Bits of a float32 that bf16 does not have."""


def decode(dtype: str, data: bytes | bytearray | memoryview) -> Array:
    """A flat float32 array of the values. Raises KeyError for a dtype that is not in FLOATS."""
    import numpy

    if dtype == "BF16":
        wide = numpy.frombuffer(data, "<u2").astype("<u4")
        wide <<= 16
        return wide.view("<f4")
    kind = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}[dtype]
    with numpy.errstate(over="ignore", invalid="ignore"):
        return numpy.frombuffer(data, kind).astype("<f4")


def rounded(dtype: str, values: Array) -> Any:
    """float32 values rounded to nearest, ties to even, as a cast to `dtype` does."""
    import numpy

    if dtype == "BF16":
        bits = values.view("<u4")
        nearest = bits + (0x7FFF + ((bits >> 16) & 1))
        nearest &= 0xFFFF0000
        return nearest.view("<f4")
    if dtype == "F16":
        with numpy.errstate(over="ignore", invalid="ignore"):
            return values.astype("<f2").astype("<f4")
    return values


def spacing(dtype: str, values: Array) -> Array:
    """The distance of neighbouring numbers of `dtype` at each value, as float32."""
    import numpy

    exponents = (values.view("<u4") & 0x7F800000).view("<f4")
    least = 2.0**-24 if dtype == "F16" else 2.0**-126 * 2.0 ** -MANTISSA[dtype]
    return numpy.maximum(exponents * numpy.float32(2.0 ** -MANTISSA[dtype]), numpy.float32(least))


def narrower(dtype: str, values: Array) -> str:
    """The dtype that the values were rounded to before they were stored wider; else `dtype`."""
    if dtype == "BF16" or not values.any():
        return dtype
    if not (values.view("<u4") & LOW_HALF).any():
        return "BF16"
    return "F16" if dtype == "F16" or bool((rounded("F16", values) == values).all()) else "F32"

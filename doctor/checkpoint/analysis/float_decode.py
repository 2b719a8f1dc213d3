"""Numbers of the float dtypes as Python's, without numpy."""

from __future__ import annotations

import math
import struct

_CODES = {"F16": "e", "F32": "f", "F64": "d"}


def floats(dtype: str, data: bytes) -> tuple[float, ...]:
    """Exact values of F16, BF16, F32 or F64."""
    if dtype == "BF16":
        dtype, data = "F32", _widened(data)
    code = _CODES[dtype]
    return struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data)


def agree_when_rounded(now: tuple[float, ...], then: tuple[float, ...], dtype: str) -> bool:
    """Whether `then`, rounded to `dtype`, is `now`: rounding alone may have made the difference."""
    return len(now) == len(then) and all(
        value == _rounded(other, dtype) for value, other in zip(now, then, strict=True)
    )


def _widened(data: bytes) -> bytes:
    """bf16 is the upper half of an fp32."""
    wide = bytearray(2 * len(data))
    wide[2::4], wide[3::4] = data[::2], data[1::2]
    return bytes(wide)


def _rounded(value: float, dtype: str) -> float:
    """To nearest, ties to even, as torch does; too large is infinite."""
    try:
        raw = struct.pack("<" + _CODES.get(dtype, "f"), value)
    except OverflowError:
        return math.copysign(math.inf, value)
    if dtype != "BF16":
        return floats(dtype, raw)[0]
    bits = int.from_bytes(raw, "little")
    if not math.isfinite(value):
        return value
    bits += 0x7FFF + (bits >> 16 & 1)
    return floats(dtype, (bits >> 16).to_bytes(2, "little"))[0]

"""NaN and Inf by the bits of each dtype, with numpy's integers.

Read as unsigned numbers, negative non-finite values are the largest; read as signed ones,
positive non-finite values are. So two maxima tell whether a chunk holds any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

LARGE = 0x77FF
"""Bits of 32752.0 in fp16: half of its largest value, 65504."""


class Format(NamedTuple):
    """How a dtype's numbers are written; complex numbers are pairs of them."""

    size: int
    """Bytes of a number."""
    top: int
    """Bits of the largest finite number."""
    infinite: bool = True
    """The next bits after it are Inf, and NaN comes after; False: they are NaN."""
    signed: bool = True
    """The first bit is the sign; False: there is none."""
    minus_zero: bool = True
    """False: where -0.0 would be is the only NaN."""

    @property
    def sign(self) -> int:
        return 1 << (8 * self.size - 1) if self.signed else 0


FORMATS = {
    "BF16": Format(2, 0x7F7F),
    "F16": Format(2, 0x7BFF),
    "F32": Format(4, 0x7F7F_FFFF),
    "F64": Format(8, 0x7FEF_FFFF_FFFF_FFFF),
    "C64": Format(4, 0x7F7F_FFFF),
    "C128": Format(8, 0x7FEF_FFFF_FFFF_FFFF),
    "F8_E5M2": Format(1, 0x7B),
    "F8_E4M3": Format(1, 0x7E, infinite=False),
    "F8_E8M0": Format(1, 0xFE, infinite=False, signed=False),
    "F8_E4M3FNUZ": Format(1, 0x7F, infinite=False, minus_zero=False),
    "F8_E5M2FNUZ": Format(1, 0x7F, infinite=False, minus_zero=False),
}

FINITE = frozenset(
    ("F4", "F6_E2M3", "F6_E3M2", "BOOL", "U8", "I8", "I16", "U16", "I32", "U32", "I64", "U64")
)
"""Dtypes every code of which is a finite number."""

PAIRS = frozenset(("C64", "C128"))


@dataclass(slots=True)
class Tally:
    """Values of one tensor; `first` is the place of its first non-finite one."""

    nan: int = 0
    plus_inf: int = 0
    minus_inf: int = 0
    large: int = 0
    first: int | None = None

    @property
    def nonfinite(self) -> int:
        return self.nan + self.plus_inf + self.minus_inf

    def add(self, other: Tally) -> None:
        self.nan += other.nan
        self.plus_inf += other.plus_inf
        self.minus_inf += other.minus_inf
        self.large += other.large
        places = [place for place in (self.first, other.first) if place is not None]
        self.first = min(places, default=None)


def suspect(dtype: str, data: Any) -> bool:
    """Whether an array of bytes holds a value that `tally` counts; nothing is copied."""
    known = FORMATS[dtype]
    unsigned, signed = data.view(f"u{known.size}"), data.view(f"i{known.size}")
    if not known.minus_zero:
        return bool(signed.min() == -128)
    above = LARGE + 1 if dtype == "F16" else known.top + 1
    return int(unsigned.max()) >= known.sign + above or (
        known.signed and int(signed.max()) >= above
    )


def tally(dtype: str, values: Any) -> tuple[Tally, Any]:
    """What an array of unsigned numbers stands for, and which are not finite: an array of bool."""
    import numpy

    known = FORMATS[dtype]
    kind = values.dtype.type
    if not known.minus_zero:
        bad = values == kind(0x80)
        return Tally(nan=int(numpy.count_nonzero(bad))), bad
    magnitude = values & kind((1 << 8 * known.size) - 1 - known.sign)
    bad = magnitude > kind(known.top)
    found = Tally(nan=int(numpy.count_nonzero(bad)))
    if known.infinite:
        found.plus_inf = int(numpy.count_nonzero(values == kind(known.top + 1)))
        found.minus_inf = int(numpy.count_nonzero(values == kind(known.sign + known.top + 1)))
        found.nan -= found.plus_inf + found.minus_inf
    if dtype == "F16":
        over = int(numpy.count_nonzero(magnitude > kind(LARGE)))
        found.large = over - found.nonfinite
    return found, bad

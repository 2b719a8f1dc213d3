"""NaN and Inf by the bits of each dtype, with numpy's integers.

Read as unsigned numbers, negative non-finite values are the largest; read as signed ones,
positive non-finite values are. So two maxima show whether a chunk holds any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from doctor.checkpoint.analysis.float_decode import floats

if TYPE_CHECKING:
    from doctor.checkpoint.analysis.arithmetic import Array

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
"""Dtypes all of whose codes are finite numbers."""

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


NONE = -1
"""Less than the bits of any magnitude."""


def first_counted(dtype: str) -> int:
    """The bits of the smallest magnitude that `tally` counts."""
    return LARGE + 1 if dtype == "F16" else FORMATS[dtype].top + 1


def magnitude(dtype: str, data: Array) -> int:
    """The bits of the largest magnitude in an array of bytes; nothing is copied.

    Of formats without -0.0, the code of NaN counts as the largest.
    """
    format_ = FORMATS[dtype]
    unsigned, signed = data.view(f"u{format_.size}"), data.view(f"i{format_.size}")
    if not format_.minus_zero:
        return format_.top + 1 if signed.min() == -128 else NONE
    negative = int(unsigned.max()) - format_.sign
    return max(negative, int(signed.max())) if format_.signed else int(unsigned.max())


def as_float(dtype: str, bits: int) -> float:
    """The magnitude of these bits, of F16, BF16, F32 and F64."""
    return floats(dtype, bits.to_bytes(FORMATS[dtype].size, "little"))[0]


def tally(dtype: str, values: Array) -> tuple[Tally, Array]:
    """Counts of the values that unsigned numbers encode, and a bool array of the non-finite."""
    import numpy

    format_ = FORMATS[dtype]
    kind = values.dtype.type
    if not format_.minus_zero:
        bad = values == kind(0x80)
        return Tally(nan=int(numpy.count_nonzero(bad))), bad
    magnitude = values & kind((1 << 8 * format_.size) - 1 - format_.sign)
    bad = magnitude > kind(format_.top)
    counts = Tally(nan=int(numpy.count_nonzero(bad)))
    if format_.infinite:
        counts.plus_inf = int(numpy.count_nonzero(values == kind(format_.top + 1)))
        counts.minus_inf = int(numpy.count_nonzero(values == kind(format_.sign + format_.top + 1)))
        counts.nan -= counts.plus_inf + counts.minus_inf
    if dtype == "F16":
        over = int(numpy.count_nonzero(magnitude > kind(LARGE)))
        counts.large = over - counts.nonfinite
    return counts, bad

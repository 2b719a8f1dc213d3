"""What a GPU's rates must reach: published measurements, data sheets, clocks and siblings."""

from __future__ import annotations

from dataclasses import dataclass

from doctor.facts.load import Load, Watched
from doctor.hardware.find import find
from doctor.hardware.product import TERA, Known

SHARE = 0.75
"""Required share of a published measurement: that of NVIDIA's DCGM (dcgm)."""
FLOOR = 0.4
"""Share of a measurement or peak below which no healthy GPU is. Our own number: of the products
with a published measurement the slowest reaches 0.7 of its peak."""
POWER_FLOOR = 0.15
"""The same share of the peak of a board whose power limit keeps it far below it, and of a vendor's
GPUs that were never measured here. Our own number: a T4 reaches a third of its peak."""
POWER_LIMITED = 200
"""Watts below which a board counts as one of these: T4, L4, A10, A30."""
SIBLING_SHARE = 0.8
"""Required share of the fastest GPU of the same model. Our own number: boards of several makers,
shared power and inlet temperatures alone make up a tenth."""
COPY_SHARE, COPY_FLOOR = 0.6, 0.3
"""Required share of the data sheet's memory bandwidth for a copy within the memory, and the share
below which no healthy GPU is. Our own numbers: an H100 reaches 0.89, boards with GDDR memory and
ECC 0.8."""
UNIT = {"bf16": "TFLOP/s", "fp16": "TFLOP/s", "tf32": "TFLOP/s", "fp32": "TFLOP/s", "copy": "GB/s"}


@dataclass(frozen=True, slots=True)
class Requirement:
    """What one rate must reach. `least` is in FLOP/s, or bytes per second for "copy"."""

    rate: str
    least: float
    reason: str
    sources: tuple[str, ...] = ()
    wild: bool = False
    """A rate below it means that the GPU is broken, not only slow."""

    @property
    def text(self) -> str:
        what = f"at least {shown(self.rate, self.least)} required"
        return f"{what} ({self.reason})"


def half_rate(load: Load) -> str | None:
    """The half precision that was measured."""
    return next((name for name in ("bf16", "fp16") if load.matmul.get(name)), None)


def measured(load: Load, rate: str) -> float | None:
    return load.copy if rate == "copy" else load.matmul.get(rate)


def shown(rate: str, value: float) -> str:
    scale = 1e9 if rate == "copy" else TERA
    digits = 1 if value < 10 * scale and rate != "copy" else 0
    return f"{value / scale:.{digits}f} {UNIT[rate]}"


def requirements(load: Load, watched: Watched | None) -> list[Requirement]:
    """What the table of hardware requires of the rates of this GPU; none for an unknown name."""
    known = find(load.name)
    half = half_rate(load)
    if known is None:
        return []
    found = _half(known, half, watched) if half else []
    if known.tf32_gain and known.bf16 and "tf32" in load.matmul:
        found += _peak(known, "tf32", known.bf16 / 2, watched)
    if known.fp32 and "fp32" in load.matmul:
        found += _peak(known, "fp32", known.fp32, watched)
    return found + _copy(known)


def of_siblings(load: Load, loads: tuple[Load, ...]) -> list[Requirement]:
    """What the fastest GPU of the same model requires of the others."""
    half = half_rate(load)
    same = [each for each in loads if each.name == load.name and each.ended.ok]
    found = []
    for rate in filter(None, (half, "copy")):
        best = max((measured(each, rate) or 0.0 for each in same), default=0.0)
        reason = f"{SIBLING_SHARE:.0%} of the fastest GPU of this model"
        found.append(Requirement(rate, SIBLING_SHARE * best, reason))
    return found


def _half(known: Known, half: str, watched: Watched | None) -> list[Requirement]:
    product = known.product
    if not product.measured:
        return _peak(known, half, known.bf16, watched) if known.bf16 else []
    published, source = product.measured[0] * TERA, product.measured[1]
    reason = f"{SHARE:.0%} of the published {published / TERA:.0f}"
    return [
        Requirement(half, SHARE * published, reason, (source,)),
        Requirement(
            half,
            FLOOR * published * _clock_share(known, watched),
            f"{FLOOR:.0%} of the published {published / TERA:.0f}{_at(known, watched)}",
            (source,),
            wild=True,
        ),
    ]


def _peak(known: Known, rate: str, peak: float, watched: Watched | None) -> list[Requirement]:
    watts = known.product.watts
    limited = watts is not None and watts < POWER_LIMITED
    share = POWER_FLOOR if limited or known.family.gfx else FLOOR
    reason = f"{share:.0%} of the data sheet's {peak / TERA:.0f}"
    least = share * peak * _clock_share(known, watched)
    reason += _at(known, watched)
    return [Requirement(rate, least, reason, known.family.sources, wild=True)]


def _clock_share(known: Known, watched: Watched | None) -> float:
    """The measured clock as a share of the one that the peak is for; 1 if either is not known."""
    clock, boost = watched.clock if watched else None, known.product.clock
    return min(1.0, clock / boost) if clock and boost else 1.0


def _at(known: Known, watched: Watched | None) -> str:
    if watched is None or _clock_share(known, watched) >= 1:
        return ""
    return f", at the {watched.clock} MHz that were measured"


def _copy(known: Known) -> list[Requirement]:
    bandwidth = known.product.bandwidth
    if not bandwidth or known.family.segment == "embedded":
        return []
    return [
        Requirement(
            "copy",
            share * bandwidth * 1e9,
            f"{share:.0%} of the data sheet's {bandwidth}",
            known.family.sources,
            wild=share == COPY_FLOOR,
        )
        for share in (COPY_SHARE, COPY_FLOOR)
    ]

"""A curve as one line of block characters."""

from __future__ import annotations

import math

from doctor.facts.log import Curve

LEVELS = "▁▂▃▄▅▆▇█"
WIDTH = 40
NONFINITE = "!"


def sparkline(curve: Curve, width: int = WIDTH) -> str:
    """The medians of equal parts of the curve; "!" where a part has a non-finite value."""
    values = [float(value) for value in curve.values]
    size = max(1, math.ceil(len(values) / width))
    parts = [values[start : start + size] for start in range(0, len(values), size)]
    middles = [_middle(part) for part in parts]
    finite = [value for value in middles if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    return "".join(_block(value, low, high) for value in middles)


def _middle(part: list[float]) -> float:
    if not all(map(math.isfinite, part)):
        return math.nan
    return sorted(part)[len(part) // 2]


def _block(value: float, low: float, high: float) -> str:
    if not math.isfinite(value):
        return NONFINITE
    share = (value - low) / (high - low) if high > low else 0.0
    return LEVELS[min(len(LEVELS) - 1, int(share * len(LEVELS)))]

"""Jumps of a series: three values in a row far above the median of those before."""

from __future__ import annotations

import math
from collections import deque

from . import thresholds as limit


class Spikes:
    """One series, value by value."""

    def __init__(self) -> None:
        self._window: deque[float] = deque(maxlen=limit.SPIKE_WINDOW)
        self._above = 0

    def add(self, value: float) -> float | None:
        """The median, where this value is the third in a row that is far above it."""
        if not math.isfinite(value):
            return None
        spike = None
        if len(self._window) == limit.SPIKE_WINDOW:
            median, bound = self._bound()
            self._above = self._above + 1 if value > bound else 0
            spike = median if self._above == limit.SPIKE_STEPS else None
        self._window.append(value)
        return spike

    def _bound(self) -> tuple[float, float]:
        median = _median(list(self._window))
        deviation = 1.4826 * _median([abs(value - median) for value in self._window])
        distance = max(limit.SPIKE_DEVIATIONS * deviation, limit.SPIKE_SHARE * abs(median))
        return median, median + distance


def _median(values: list[float]) -> float:
    values.sort()
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2

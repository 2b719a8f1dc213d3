"""Rules over a series of logged values: robust statistics with the constants that they cite."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass

from doctor._util.median import median

FEWEST = 20
"""Points below which only NaN, zero and constant values are judged."""
WINDOW, SMALLEST_WINDOW = 128, 16
"""Points before a value that it is compared with: a quarter of the series within these limits, so
that a loss that falls is compared with its neighbours. Our own numbers."""
SIGMAS = 6.0
"""Deviations above the median from which a value is a spike. Our own number."""
TO_SIGMA = 1.4826
"""Median absolute deviation -> standard deviation of a normal distribution."""
RISE, STEEP = 1.3, 2.0
"""Times the median: what a spike exceeds beside the deviations, six of which are next to nothing on
a smooth curve, and from where it is severe however short. Our own numbers."""
IN_A_ROW = 5
"""Values from which a spike is long. Our own number."""
DIVERGED = 1.5
"""Times the lowest level of the run, at its end. Our own number."""
FLAT_SPAN, FLAT_TOTAL = 0.01, 0.05
"""Shares of the level: the drift of the last 30 %, and the improvement in all. Our own numbers."""


@dataclass(frozen=True, slots=True)
class Spike:
    """Values far above those before them; `last` is the index after the last one."""

    first: int
    last: int
    value: float
    typical: float
    """The median of the window before it."""
    recovered: bool

    @property
    def severe(self) -> bool:
        """Five in a row, or twice the median, and no return to what it was."""
        long = self.last - self.first >= IN_A_ROW
        return (long or self.value > STEEP * self.typical) and not self.recovered


def spikes(values: Sequence[float]) -> list[Spike]:
    """Values above the window's median by six sigmas and by 30 %. Finite values only."""
    if len(values) < FEWEST:
        return []
    size = max(SMALLEST_WINDOW, min(WINDOW, len(values) // 4))
    window: list[float] = []
    ordered: list[float] = []
    result: list[Spike] = []
    index = 0
    while index < len(values):
        value = values[index]
        if len(window) >= SMALLEST_WINDOW and _is_high(value, ordered):
            spike = _extent(values, index, ordered, size)
            result.append(spike)
            index = spike.last
            continue
        window.append(value)
        insort(ordered, value)
        if len(window) > size:
            ordered.pop(bisect_left(ordered, window.pop(0)))
        index += 1
    return result


def _is_high(value: float, ordered: list[float]) -> bool:
    middle = _middle(ordered)
    if middle <= 0 or value <= RISE * middle:
        return False
    return value > middle + SIGMAS * TO_SIGMA * _deviation(ordered, middle)


def _middle(ordered: list[float]) -> float:
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def _deviation(values: Sequence[float], middle: float) -> float:
    return median(abs(value - middle) for value in values)


def _extent(values: Sequence[float], first: int, ordered: list[float], size: int) -> Spike:
    """How far the spike that begins at `first` goes, and whether the values came back."""
    middle = _middle(ordered)
    near = middle + 3 * max(TO_SIGMA * _deviation(ordered, middle), 0.01 * middle)
    last = first + 1
    while last < len(values) and _is_high(values[last], ordered):
        last += 1
    highest = max(values[first:last])
    after = values[last : last + size]
    return Spike(first, last, highest, middle, any(value <= near for value in after))


def diverged(values: Sequence[float]) -> tuple[float, float] | None:
    """The lowest value and the final level, if the end is 1.5 times above the lowest so far.

    The lowest is the smallest median of ten neighbours after the first tenth of the run.
    """
    if len(values) < FEWEST:
        return None
    start, tail = len(values) // 10, max(3, len(values) // 10)
    final = median(values[-tail:])
    size = min(10, tail)
    middles = [median(values[at : at + size]) for at in range(start, len(values) - size + 1, size)]
    lowest = min(middles, default=final)
    return (lowest, final) if lowest > 0 and final > DIVERGED * lowest else None


def is_flat(values: Sequence[float]) -> bool:
    """Whether the last 30 % have no slope and the whole run improved by less than 5 %."""
    if len(values) < FEWEST:
        return False
    tail = list(values[-max(10, len(values) * 3 // 10) :])
    middle = median(tail)
    if middle <= 0:
        return False
    head = median(values[: max(3, len(values) // 10)])
    drift = abs(_slope(tail)) * len(tail)
    return drift < FLAT_SPAN * middle and head - middle < FLAT_TOTAL * head


def _slope(values: list[float]) -> float:
    """Theil-Sen's: the median of the slopes between points, here of at most 60 of them."""
    step = max(1, len(values) // 60)
    points = [(at, values[at]) for at in range(0, len(values), step)]
    slopes = [
        (later - earlier) / (second - first)
        for number, (first, earlier) in enumerate(points)
        for second, later in points[number + 1 :]
    ]
    return median(slopes) if slopes else 0.0


def rises_before(values: Sequence[float], at: int, span: int = 10) -> bool:
    """Whether the values just before an index are twice those of the window before them."""
    near, far = values[max(0, at - span) : at], values[max(0, at - span - WINDOW) : at - span]
    near = [value for value in near if math.isfinite(value)]
    far = [value for value in far if math.isfinite(value)]
    return len(near) >= 3 and len(far) >= SMALLEST_WINDOW and median(near) > 2 * median(far)


def fell(values: Sequence[float], share: float) -> tuple[float, float] | None:
    """The median of the first and of the last third, if the last is below `share` of the first."""
    if len(values) < FEWEST:
        return None
    third = len(values) // 3
    early, late = median(values[:third]), median(values[-third:])
    return (early, late) if early > 0 and late < share * early else None

"""Rules over a series of logged values: robust statistics on logarithms, where the noise of losses
is symmetric and a factor is a difference.

The false alarms of all rules together are measured by benchmarks/curves: at most 1 % of stationary
logs fail and 3 % warn. The numbers here are our own, chosen for that.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from doctor._util.median import median

FEWEST = 20
"""Points below which only NaN, zero and constant values are judged."""
CERTAIN = 100
"""Points below which a shape is a note at most: ten windows of ten values."""
WINDOW, SMALLEST_WINDOW = 128, 16
"""Points before a value that it is compared with: a quarter of the series within these limits, so
that a loss that falls is compared with its neighbours."""
SIGMAS = 7.5
"""Deviations above the median from which a value is a spike."""
TO_SIGMA = 1.4826
"""Median absolute deviation -> standard deviation of a normal distribution."""
OF_MEDIAN = 1.2533
"""Standard error of a median by that of a mean."""
RISE, STEEP = math.log(1.6), 2.0
"""What a spike exceeds beside the deviations, 7.5 of which are next to nothing on a smooth curve
(the two sides of an adversarial training differ by half), and the factor from which it is severe
however short."""
IN_A_ROW = 5
"""Values from which a spike is long."""
DIVERGED = math.log(1.5)
"""Above the second lowest level of the run, at its end."""
ERRORS = 6.0
"""Standard errors by which two levels differ: the lowest of ten is two below the mean by chance."""
RISING = 3.0
"""Standard errors of Mann-Kendall's test for a trend since the lowest level."""
SHARES = 10
"""Windows of a series whose levels are compared, of ten values at least."""
FLAT_SPAN, FLAT_TOTAL = 0.01, 0.05
"""Shares of the level: the drift of the last 30 %, and the improvement in all."""


def logarithms(values: Sequence[float]) -> list[float] | None:
    """Of positive values; zeros count as half the smallest one. None for values below zero."""
    smallest = min((value for value in values if value > 0), default=0.0)
    if not smallest or min(values) < 0:
        return None
    return [math.log(value or smallest / 2) for value in values]


def thirds(values: Sequence[float]) -> tuple[float, float]:
    """The medians of the first and of the last third. Raises ValueError without values."""
    third = max(1, len(values) // 3)
    return median(values[:third]), median(values[-third:])


def noise_of(values: Sequence[float]) -> float:
    """Standard deviation of a value from its level, by the differences of neighbours."""
    steps = [abs(later - value) for value, later in pairwise(values)]
    return TO_SIGMA * median(steps) / math.sqrt(2) if steps else 0.0


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
    """Values above the window's median by 7.5 sigmas and by 60 %. Finite values only."""
    logs = logarithms(values) if len(values) >= FEWEST else None
    if logs is None:
        return []
    size = max(SMALLEST_WINDOW, min(WINDOW, len(values) // 4))
    noise = noise_of(logs)
    window: list[float] = []
    ordered: list[float] = []
    result: list[Spike] = []
    index = 0
    while index < len(logs):
        value = logs[index]
        if len(window) >= SMALLEST_WINDOW and _is_high(value, ordered, noise):
            spike = _extent(logs, index, ordered, noise, size)
            result.append(spike)
            index = spike.last
            continue
        window.append(value)
        insort(ordered, value)
        if len(window) > size:
            ordered.pop(bisect_left(ordered, window.pop(0)))
        index += 1
    return result


def _is_high(value: float, ordered: list[float], noise: float) -> bool:
    middle = _middle(ordered)
    rise = value - middle
    if rise <= max(RISE, SIGMAS * noise):
        return False
    return rise > SIGMAS * TO_SIGMA * _deviation(ordered, middle)


def _middle(ordered: list[float]) -> float:
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def _deviation(values: Sequence[float], middle: float) -> float:
    return median(abs(value - middle) for value in values)


def _extent(
    logs: Sequence[float], first: int, ordered: list[float], noise: float, size: int
) -> Spike:
    """How far the spike that begins at `first` goes, and whether the values came back."""
    middle = _middle(ordered)
    near = middle + 3 * max(TO_SIGMA * _deviation(ordered, middle), noise, 0.01)
    last = first + 1
    while last < len(logs) and _is_high(logs[last], ordered, noise):
        last += 1
    highest = max(logs[first:last])
    after = logs[last : last + size]
    came_back = any(value <= near for value in after)
    return Spike(first, last, math.exp(highest), math.exp(middle), came_back)


@dataclass(frozen=True, slots=True)
class Levels:
    """The medians of equally wide windows, the last of which ends where the series ends."""

    medians: list[float]
    starts: list[int]
    error: float
    """Standard error of each."""


def levels_of(logs: Sequence[float]) -> Levels:
    """At least two levels; of fewer than 20 values the halves."""
    width = max(1, min(len(logs) // 2, max(10, len(logs) // SHARES)))
    starts = list(range(len(logs) % width, len(logs) - width + 1, width))
    windows = [logs[start : start + width] for start in starts]
    medians = [median(window) for window in windows]
    within = median(
        TO_SIGMA * _deviation(window, middle)
        for window, middle in zip(windows, medians, strict=True)
    )
    single = max(noise_of(logs), within)
    # Neighbours that resemble each other make a level less certain than their number says.
    error = max(OF_MEDIAN * single / math.sqrt(width), _noise_around_trend(medians))
    return Levels(medians, starts, error)


def _noise_around_trend(values: Sequence[float]) -> float:
    """As `noise_of`, by the second differences: a slope leaves no trace in them."""
    bends = [
        abs(before - 2 * value + after)
        for before, value, after in zip(values, values[1:], values[2:], strict=False)
    ]
    return TO_SIGMA * median(bends) / math.sqrt(6) if bends else 0.0


def diverged(values: Sequence[float]) -> tuple[float, float] | None:
    """The lowest and the final level, if the end is certainly 1.5 times above the lowest so far.

    The lowest is the second lowest of the windows that are as wide as the last one: of ten levels
    that differ by noise alone one is low by chance.
    """
    logs = logarithms(values) if len(values) >= FEWEST else None
    if logs is None:
        return None
    levels = levels_of(logs)
    *before, final = levels.medians
    lowest = sorted(before)[min(1, len(before) - 1)]
    rise = final - lowest
    if rise <= max(DIVERGED, ERRORS * levels.error * math.sqrt(2)):
        return None
    since = levels.starts[before.index(min(before))]
    return (math.exp(lowest), math.exp(final)) if _trend(logs[since:]) > RISING else None


LOST = 0.2
"""Share of what a run had gained, from which on it is lost. Our own number."""
EXPLODED = 5.0
"""Times the usual gradient norm, three values in a row. Our own number."""


def lost(values: Sequence[float]) -> tuple[float, float] | None:
    """The best and the final level of a series that falls, if a fifth of what was gained is
    certainly lost at the end; of any sign, unlike `diverged`."""
    if len(values) < FEWEST:
        return None
    levels = levels_of(values)
    *before, final = levels.medians
    lowest, first = min(before), before[0]
    rise, width = final - lowest, levels.starts[1] - levels.starts[0]
    certain = ERRORS * OF_MEDIAN * noise_of(values) * math.sqrt(2 / width)
    return (lowest, final) if rise > max(LOST * (first - lowest), certain) else None


FEWEST_EARLY, STAYS = 4, 3
"""Values before an early explosion, and the part of a run, a third, in which all values show that
a loss never came back. Our own numbers."""


def ruined(values: Sequence[float], at: int) -> tuple[float, float] | None:
    """The highest value before an index and the median of the last third, all of which is 1.5
    times higher: a start that is too short for a level, and noise cannot reach that."""
    tail = values[-(len(values) // STAYS) :]
    if at < FEWEST_EARLY or len(values) < FEWEST or len(values) - len(tail) < at:
        return None
    before = max(values[:at])
    return (before, median(tail)) if min(tail) > math.exp(DIVERGED) * before > 0 else None


def exploded(norms: Sequence[float], fewest: int = SMALLEST_WINDOW) -> int | None:
    """The index from which three values in a row are five times the median of those before; of
    fewer than a window their highest value counts."""
    for at in range(fewest, len(norms) - 2):
        usual = median(norms[:at]) if at >= SMALLEST_WINDOW else max(norms[:at])
        if min(norms[at : at + 3]) > EXPLODED * usual > 0:
            return at
    return None


def _trend(values: Sequence[float]) -> float:
    """Mann-Kendall's statistic: standard errors by which rises outnumber falls; at most 200
    values are compared."""
    step = max(1, len(values) // 200)
    some = list(values[::step])
    count = len(some)
    balance = sum(
        (later > value) - (later < value)
        for number, value in enumerate(some)
        for later in some[number + 1 :]
    )
    return balance / math.sqrt(max(1, count * (count - 1) * (2 * count + 5)) / 18)


FEWEST_DIFFERENT, REPEATED = 4, 3
"""Different values of a period, and periods, which no chance repeats. Our own numbers."""


def repeats(values: Sequence[float]) -> int:
    """After how many values all of them come again, exactly and in their order; 0 if they do
    not."""
    for period in range(FEWEST_DIFFERENT, len(values) // REPEATED + 1):
        first = values[:period]
        if list(values[period:]) == list(values[:-period]) and len(set(first)) > period // 2:
            return period if len(set(first)) >= FEWEST_DIFFERENT else 0
    return 0


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
    return drift < FLAT_SPAN * middle and abs(head - middle) < FLAT_TOTAL * head


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
    """The median of the first and of the last third, if the last is certainly below `share` of
    the first."""
    logs = logarithms(values) if len(values) >= FEWEST else None
    if logs is None:
        return None
    early, late = thirds(logs)
    error = OF_MEDIAN * noise_of(logs) / math.sqrt(len(logs) // 3)
    certain = early - late > max(-math.log(share), ERRORS * error * math.sqrt(2))
    return (math.exp(early), math.exp(late)) if certain else None

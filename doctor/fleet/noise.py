"""The noise of measurements within a class: its scatter, its tail, and two groups in it.

Values are logarithms of rates, so a difference of 0.1 is about a tenth. numpy is imported where it
is used: most commands need none.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Values = NDArray[np.float64]

NORMAL = 1.4826
"""A median absolute deviation times this is the standard deviation of normal noise."""
LEAST_SCATTER = 1e-3
"""Clocks step, and equal nodes give equal rates: a scatter below it says nothing."""
TAILS = (2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 20.0, 50.0)
"""Degrees of freedom of Student's t that are tried, from the heaviest tail on."""
LIKELY = 1.35
"""Logarithm of the likelihood that a heavier tail may lose and is still believed (95 %)."""
SHARE, FEWEST = 0.2, 3
"""Of a class, and nodes, that a group of another speed has at least."""
FEWEST_TO_DIVIDE = 8


def scatter(values: Values) -> tuple[float, float]:
    """Median, and scatter around it by the median absolute deviation."""
    import numpy as np

    median = float(np.median(values))
    deviation = float(np.median(np.abs(values - median)))
    return median, max(NORMAL * deviation, LEAST_SCATTER)


def tail(fast: Values) -> float:
    """Degrees of freedom of the heaviest tail that these deviations leave likely.

    `fast` are deviations of nodes that are faster than the median, divided by their scatter: no
    straggler is among them.
    """
    import numpy as np

    if len(fast) < FEWEST_TO_DIVIDE:
        return TAILS[0]
    likelihoods = [float(np.sum(_log_density(fast, freedom))) for freedom in TAILS]
    best = max(likelihoods)
    pairs = zip(TAILS, likelihoods, strict=True)
    return next(freedom for freedom, each in pairs if each >= best - LIKELY)


def _log_density(deviations: Values, freedom: float) -> Values:
    import numpy as np

    unit = _unit(freedom)
    scaled = deviations / unit
    constant = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    constant -= 0.5 * math.log(freedom * math.pi) + math.log(unit)
    density: Values = constant - (freedom + 1) / 2 * np.log1p(scaled**2 / freedom)
    return density


@cache
def _unit(freedom: float) -> float:
    """What noise of Student's t is multiplied with to have the scatter 1."""
    return 1 / (NORMAL * exceeded_by(0.25, freedom, unit=1.0))


def exceeded_by(chance: float, freedom: float, unit: float | None = None) -> float:
    """The deviation in units of the scatter that one measurement of `chance` exceeds, one-sided."""
    import numpy as np

    grid, survival = _survival(freedom)
    value = float(np.exp(np.interp(-math.log(chance), -np.log(survival), np.log(grid))))
    return value * (_unit(freedom) if unit is None else unit)


@cache
def _survival(freedom: float) -> tuple[Values, Values]:
    """Points, and the chance of Student's t to exceed each."""
    import numpy as np

    grid = np.geomspace(1e-4, 1e8, 6000)
    density = (1 + grid**2 / freedom) ** (-(freedom + 1) / 2)
    steps = (density[1:] + density[:-1]) / 2 * np.diff(grid)
    above = np.concatenate([np.cumsum(steps[::-1])[::-1], [0.0]])
    above += density[-1] * grid[-1] / freedom  # beyond the last point
    whole = above[0] + grid[0] * density[0]
    return grid, np.maximum(above / whole / 2, 1e-300)


class Division(NamedTuple):
    """Two groups of one class."""

    slow: NDArray[np.bool_]
    """Whether each value is in the slower group."""
    factor: float
    """How many times slower it is."""


def divide(values: Values) -> Division | None:
    """Two groups that lie further apart than noise of one group ever does; None: one group."""
    import numpy as np

    count = len(values)
    least = max(FEWEST, math.ceil(SHARE * count))
    if count < FEWEST_TO_DIVIDE:
        return None
    ordered = np.sort(values)
    at = _best_split(ordered, least)
    low, high = ordered[:at], ordered[at:]
    apart = float(np.median(high) - np.median(low))
    rest = np.concatenate([low - np.median(low), high - np.median(high)])
    within = max(NORMAL * float(np.median(np.abs(rest))), LEAST_SCATTER)
    if apart < math.log(SLOWER) or apart < within * _apart(count):
        return None
    return Division(values <= low[-1], math.exp(apart))


SLOWER = 1.05
"""Nothing less is worth a finding: the share below which SuperBench calls a node defective."""


def _apart(count: int) -> float:
    """The distance of two groups, in scatters within them, that noise of one group reaches in less
    than one of 1,000 classes: by simulation with uniform, normal and heavy-tailed noise.
    """
    return 5 + 3600 / count**2


def _best_split(ordered: Values, least: int) -> int:
    """Where two groups have the least squares around their means."""
    import numpy as np

    count = len(ordered)
    centred = ordered - ordered.mean()
    sums = np.cumsum(centred)
    sizes = np.arange(1, count)
    explained = sums[:-1] ** 2 / sizes + (sums[-1] - sums[:-1]) ** 2 / (count - sizes)
    allowed = explained[least - 1 : count - least]
    return int(np.argmax(allowed)) + least

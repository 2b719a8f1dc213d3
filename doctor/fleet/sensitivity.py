"""Which slowdown a comparison would have found, by putting it on each node in turn."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from doctor.fleet.noise import NORMAL, SLOWER

if TYPE_CHECKING:
    from doctor.fleet.noise import Values

POWER = 0.95
"""The probability with which the slowdown is found."""
MANY = 64
"""Nodes from which one of them hardly changes median and scatter, and a metric has quantiles of its
own."""
INTERVAL = 16
"""Nodes below which the scatter is so uncertain that an interval is given."""
REPEATED = 1.18
"""Noise of a later measurement by that of the first one: what the median of eight controls adds."""
RESAMPLED = 400
MOST = 50.0
"""Logarithm of a slowdown; more is infinite."""


def found(
    deviations: Values, scatter: float, pooled: Values, candidate: float, rounds: int
) -> tuple[float, float | None]:
    """The slowdown that is found with 95 % power in each of `rounds` measurements.

    `pooled` are deviations of all metrics of the class in scatters, for classes too small to have
    quantiles of their own. The second value is the upper end of an interval, for small classes.
    """
    import numpy as np

    power = POWER ** (1 / rounds)
    repeated = REPEATED if rounds > 1 else 1.0
    if len(deviations) >= MANY:
        bound = max(candidate * scatter, math.log(SLOWER))
        return _factor(bound + repeated * float(np.quantile(deviations, power))), None
    bounds = _bounds(deviations, candidate)
    noise = pooled * scatter * repeated
    needed = (bounds[:, None] + noise[None, :]).ravel()
    point = float(np.quantile(needed, power))
    if len(deviations) >= INTERVAL:
        return _factor(point), None
    high = float(np.quantile(bounds[:, None] + noise[None, :] * _doubt(deviations, scatter), power))
    return _factor(point), _factor(max(point, high))


def _bounds(deviations: Values, candidate: float) -> Values:
    """The deviation below which each node would be a candidate, were it the slowest.

    Median and scatter are those of the class with that node below all others.
    """
    import numpy as np

    count = len(deviations)
    ordered = np.tile(np.sort(deviations), (count, 1))
    np.fill_diagonal(ordered, -np.inf)
    ordered.sort(axis=1)
    median = (ordered[:, (count - 1) // 2] + ordered[:, count // 2]) / 2
    distances = np.sort(np.abs(ordered - median[:, None]), axis=1)
    middle = (distances[:, (count - 1) // 2] + distances[:, count // 2]) / 2
    bounds: Values = np.maximum(candidate * NORMAL * middle, math.log(SLOWER)) - median
    return bounds


def _doubt(deviations: Values, scatter: float) -> float:
    """By how much the true scatter may exceed the one that so few nodes show (95 %)."""
    import numpy as np

    random = np.random.default_rng(len(deviations))  # the same facts give the same report
    drawn = random.choice(deviations, (RESAMPLED, len(deviations)))
    middle = np.median(drawn, axis=1, keepdims=True)
    scatters = NORMAL * np.median(np.abs(drawn - middle), axis=1)
    return max(1.0, scatter / max(float(np.quantile(scatters, 1 - POWER)), scatter / 10))


def _factor(logarithm: float) -> float:
    return round(math.exp(min(logarithm, MOST)), 4)

"""What the losses of the steps on one batch show, whatever made them."""

from __future__ import annotations

import math

from doctor.facts.own_model import Trend

ABOVE, FEWEST = 1.5, 10
"""Times the first loss, and the steps to see it. Our own numbers."""


def stays_above(trend: Trend) -> bool:
    """Whether the loss of a prediction is far above its first value in every later step."""
    losses = [float(loss) for loss in trend.losses]
    if len(losses) < FEWEST or not trend.supervised or not all(map(math.isfinite, losses)):
        return False
    return min(losses[1:]) > ABOVE * losses[0] > 0

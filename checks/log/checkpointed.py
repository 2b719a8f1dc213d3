"""Whether gradient checkpointing whose inputs require no gradient left the model untrained."""

from __future__ import annotations

import math

from doctor.checks.log.curves.reading import values_of
from doctor.facts.log import Log

CHECKPOINTED = "none-requires-grad"
FEWEST = 10
FALL = 0.9
"""Of the first losses that the last ones are below. Our own numbers."""
HARMLESS = "; losses fall with gradients above 0, so the segments behind it train"


def trains(log: Log, path: str) -> bool:
    """Whether the loss of the file falls and each gradient norm is finite and above 0. An adapter
    on a frozen base may leave a part untrained nevertheless."""
    if any(each.name == "trainable_params" and each.path == path for each in log.stated):
        return False
    curves = {each.name: values_of(each) for each in log.curves if each.path == path}
    norms, losses = curves.get("grad_norm", []), curves.get("loss", [])
    if min(len(norms), len(losses)) < FEWEST:
        return False
    third = len(losses) // 3
    early, late = sum(losses[:third]) / third, sum(losses[-third:]) / third
    return all(math.isfinite(each) and each > 0 for each in norms) and late < FALL * early

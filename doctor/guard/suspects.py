"""After a step whose gradients are not finite: whether the weights are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Callable

from .foreign import Foreign
from .parameters import local
from .records import Alarm, Step
from .rules import not_known_to_spoil, spoiled

if TYPE_CHECKING:
    from .optimizer_watch import OptimizerWatch

MOST = 2000
"""Parameters that are looked at: one copy from a GPU."""


def examine(
    watch: OptimizerWatch, step: Step, add: Callable[[Alarm, OptimizerWatch], None]
) -> None:
    """Read the largest size of each parameter, and judge when they have arrived."""
    torch = watch.torch
    parameters = [(index, local(p)) for index, p in enumerate(watch.flat) if not p.is_sparse]
    parameters = [(i, p) for i, p in parameters if p.is_floating_point() and p.numel()][:MOST]
    if not parameters:  # the optimizer is gone before its last step was read
        add(not_known_to_spoil(step, watch.index), watch)
        return

    def deliver(values: list[Foreign]) -> None:
        sizes = zip(parameters, values)
        bad = [i for (i, _), size in sizes if size is not None and not math.isfinite(size)]
        if bad:
            add(spoiled(step, bad, watch.index), watch)

    with torch.no_grad():
        largest = [torch.linalg.vector_norm(p, math.inf) for _, p in parameters]
    watch.readings.values.submit(largest, deliver)

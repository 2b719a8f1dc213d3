"""What the backward passes between two steps show, beside their losses."""

from __future__ import annotations

from . import loss_graphs, step_alarms
from . import thresholds as limit
from .accumulation import Accumulation
from .closures import Closures
from .foreign import Foreign
from .judging import Judging
from .registry import Registry
from .unstepped import Unstepped

CLEARED_TIMES = 5
"""How many times as many backward passes may come without a step where each one is cleared: a
Fisher matrix, attributions. Our own number."""


class Passes:
    """Passes for one step, inside one step, and without a step."""

    def __init__(self, judging: Judging, registry: Registry) -> None:
        self._judging, self._registry = judging, registry
        self._steady = judging.steady
        self.accumulation = Accumulation()
        self.closures, self.unstepped = Closures(judging.context), Unstepped(judging.context)

    def begins(self, root: Foreign) -> None:
        """A backward pass from `root` begins."""
        steady = self._steady
        self._follow_accumulation()
        if steady.backwards - steady.stepped_at >= limit.BACKWARDS_WITHOUT_STEP:
            self._without_step()
        if not self._judging.watches and steady.backwards in limit.UNSTEPPED:
            self.unstepped.passes(root)
        if any(watch.rules.lacks_gradients for watch in self._judging.watches.values()):
            self._judging.rebuilt = loss_graphs.begins_anew(root)
        optimizer = steady.stepping() if steady.closure and steady.stepping is not None else None
        watch = None if optimizer is None else self._registry.known(optimizer)
        if watch is not None and self.closures.open:
            self.closures.passes(watch)

    def _follow_accumulation(self) -> None:
        """Note whether the gradients of the passes before this one are still there."""
        watch = self._registry.only()
        if watch is not None and watch.effective < limit.ACCUMULATED_UNTIL:
            passes = self._steady.backwards - self._steady.stepped_at
            self.accumulation.begins(passes, watch.clearing)

    def _without_step(self) -> None:
        """Far more backward passes than usual since any optimizer stepped."""
        judging = self._judging
        judging.judge_log()
        count = self._steady.backwards - self._steady.stepped_at
        watches = judging.watches.values()
        most = max((each.rules.most_backwards for each in watches), default=0)
        if count >= most and all(each.clearing.is_clear() for each in watches):
            most *= CLEARED_TIMES
        if judging.tally.steps and count == most:
            judging.add(step_alarms.without_step(count, judging.tally.steps), None)

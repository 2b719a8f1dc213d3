"""How many updates of 16-bit weights a step loses to rounding: samples before and after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

from . import codes
from . import thresholds as limit
from .foreign import Foreign
from .optimizer_watch import OptimizerWatch
from .parameters import local, view
from .readings import Readings
from .records import WARN, Alarm
from .values import unless_lost

if TYPE_CHECKING:
    from torch.optim import Optimizer


class LostUpdates:
    """Compares, at the steps that are looked at, weights that have a gradient; adds alarms."""

    def __init__(
        self, readings: Readings[OptimizerWatch], add: Callable[[Alarm, OptimizerWatch], None]
    ) -> None:
        self.readings = readings
        self.add = add
        self.updates = self.lost = 0
        self._before: list[tuple[int, Foreign, Foreign]] = []

    def before(self, watch: OptimizerWatch) -> None:
        """The step begins: copy samples of 16-bit weights, and where their gradient is not 0."""
        self._before = []
        if not watch.parameters.half or self.readings.steady.scaled:
            return
        torch, flat = watch.torch, watch.flat
        for tracked in watch.parameters.tracked:
            gradient = flat[tracked.index].grad
            if tracked.half and gradient is not None and not gradient.is_sparse:
                weights = view(torch, local(flat[tracked.index]), whole=False).clone()
                gradients = view(torch, local(gradient), whole=False) != 0
                if weights.numel() == gradients.numel():
                    self._before.append((tracked.index, weights, gradients))

    def after(self, watch: OptimizerWatch, optimizer: Optimizer) -> None:
        """The step was applied: how many of those weights are unchanged."""
        before, self._before = self._before, []
        if not before or watch.rising or watch.compensated(optimizer):
            return
        torch, flat = watch.torch, watch.flat
        device = before[0][1].device
        here = [entry for entry in before if entry[1].device == device]
        updated = torch.cat([gradients for _, _, gradients in here])
        same = torch.cat(
            [view(torch, local(flat[i]), whole=False) == weights for i, weights, _ in here]
        )
        judge = unless_lost(self._judge, watch, watch.steps)
        self.readings.values.submit([(same & updated).sum(), updated.sum()], judge)

    def _judge(self, watch: OptimizerWatch, step: int, lost: float, updates: float) -> None:
        self.lost += int(lost)
        self.updates += int(updates)
        for alarm in lost_alarm(
            int(lost), int(updates), max(watch.rates.highest), step, watch.index
        ):
            self.add(alarm, watch)


def lost_alarm(lost: int, updates: int, rate: float, step: int, optimizer: int) -> list[Alarm]:
    """The alarm where most updates are lost. Numbers only."""
    if updates < limit.ENOUGH_UPDATES or lost < limit.LOST_SHARE * updates:
        return []
    text = (
        f"rounding lost {lost / updates:.0%} of {updates:,} sampled updates of 16-bit weights, "
        f"learning rate up to {rate:.2g}"
    )
    return [Alarm(codes.UPDATES_SURVIVE, WARN, step, text, "lost", optimizer)]

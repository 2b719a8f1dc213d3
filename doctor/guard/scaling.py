"""What a GradScaler does: the loss before it is scaled, steps that it omits, its scale."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from . import rules
from .foreign import Foreign
from .parameters import local

if TYPE_CHECKING:
    from torch.optim import Optimizer

if TYPE_CHECKING:
    from .watch import Watch


class Scaling:
    """The loss scaler of a process. `active`: one is in use, `scale`: its last scale."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.active = False
        self.scale: float | None = None
        self.unscaled: tuple[Foreign, Foreign] | None = None
        """The scaled loss, weakly, and the loss it was made of."""

    def step_begins(self, optimizer: Optimizer) -> None:
        """GradScaler.step() begins."""
        self.watch.start()
        self.watch.steady.disarm()
        self.active = True
        watch = self.watch.watch_of(optimizer)
        if watch is not None:
            watch.stepped = False

    def step_ends(self, optimizer: Optimizer) -> None:
        """GradScaler.step() returned: without a call of step() it was skipped."""
        watch = self.watch.known(optimizer)
        if watch is not None and not watch.stepped:
            watch.skip()

    def updated(self, scale: Foreign, initial: float) -> None:
        """GradScaler.update() returned."""

        def deliver(values: list[Foreign]) -> None:
            if values[0] is not None:
                self.scale = values[0]
                for alarm in rules.scale_alarm(values[0], initial, self.watch.steps):
                    self.watch.alarms.add(alarm, None)

        self.watch.values.submit([local(scale)], deliver)

    def loss_scaled(self, loss: Foreign, scaled: Foreign) -> None:
        """GradScaler.scale(loss) returned `scaled`."""
        self.watch.steady.disarm()
        self.unscaled = (weakref.ref(scaled), loss.detach())

    def loss_before(self, loss: Foreign) -> Foreign:
        """The loss as it was before it was scaled."""
        scaled, self.unscaled = self.unscaled, None
        return scaled[1] if scaled is not None and scaled[0]() is loss else loss

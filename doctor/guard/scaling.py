"""What the hooks of a GradScaler report, and the loss before it was scaled."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Callable

from . import step_alarms
from .clips import Clips
from .foreign import Foreign
from .judging import Judging
from .parameters import local
from .registry import Registry

if TYPE_CHECKING:
    from torch.optim import Optimizer


class Scaling:
    """`unscaled`: the scaled loss, weakly, and the loss it was made of."""

    def __init__(
        self, judging: Judging, registry: Registry, clips: Clips, start: Callable[[], None]
    ) -> None:
        self._judging, self._registry, self._start = judging, registry, start
        self.clips = clips
        self.unscaled: tuple[Foreign, Foreign] | None = None

    def loss_scaled(self, loss: Foreign, scaled: Foreign, scaler: Foreign) -> None:
        """GradScaler.scale(loss) returned `scaled`."""
        self._judging.steady.disarm()
        self.clips.scaler = scaler
        self.unscaled = (weakref.ref(scaled), loss.detach())

    def scaled_step_begins(self, optimizer: Optimizer) -> None:
        """GradScaler.step() begins."""
        self._start()
        self._judging.steady.disarm()
        self._judging.steady.scaled = True
        self.clips.scaler_steps()
        watch = self._registry.watch_of(optimizer)
        if watch is not None:
            watch.stepped = False

    def scaled_step_ends(self, optimizer: Optimizer) -> None:
        """GradScaler.step() returned: without a call of step() it was skipped."""
        watch = self._registry.known(optimizer)
        if watch is not None and not watch.stepped:
            watch.skip(optimizer)

    def scale_updated(self, scale: Foreign, initial: float) -> None:
        """GradScaler.update() returned."""
        judging = self._judging

        def deliver(values: list[Foreign]) -> None:
            if values[0] is not None:
                judging.scale = values[0]
                for alarm in step_alarms.scale_alarm(values[0], initial, judging.tally.steps):
                    judging.add(alarm, None)

        self._judging.readings.submit([local(scale)], deliver)

    def loss_before(self, loss: Foreign) -> Foreign:
        """The loss as it was before it was scaled."""
        scaled, self.unscaled = self.unscaled, None
        return scaled[1] if scaled is not None and scaled[0]() is loss else loss

"""The watch with the codes that are off by default: nothing of this runs without `all`."""

from __future__ import annotations

import time
from types import ModuleType
from typing import TYPE_CHECKING

from . import codes
from .flat_loss import FlatLoss
from .foreign import Foreign
from .lost_updates import LostUpdates
from .memory import Memory
from .optimizer_watch import OptimizerWatch
from .pace import Idle, Pace
from .records import Alarm, Step
from .settings import Settings
from .watch import Watch

if TYPE_CHECKING:
    from torch.optim import Optimizer


class ThoroughWatch(Watch):
    """Also times steps and batches, and follows memory, rounding and a flat loss.

    Times and memory are those between the steps of the first optimizer.
    """

    def __init__(self, torch: ModuleType, settings: Settings) -> None:
        super().__init__(torch, settings)
        self.pace = Pace()
        self.memory = Memory(torch)
        self.lost_updates = LostUpdates(self.readings, self.judging.add)
        self._idle = Idle(torch)
        self._flat: dict[int, FlatLoss] = {}
        self._effective = 0
        self._look = False
        self._last_step: float | None = None
        self.steady.stepped, self.steady.full = self._stepped, True
        self.judging.further = self
        self.batch_waited = self._batch_waited

    def _batch_waited(self, iterator: Foreign, seconds: float) -> None:
        """The iterator of a DataLoader returned a batch after that time."""
        if getattr(iterator, "_num_yielded", 2) > 1:  # the first batch of an epoch starts workers
            self.pace.waited(seconds, self._idle.now())

    def step_begins(self, optimizer: Optimizer, closure: bool) -> None:
        """Also copies the samples of 16-bit weights before a comparison."""
        super().step_begins(optimizer, closure)
        watch = self.registry.known(optimizer)
        if watch is not None and not closure:
            self._effective = watch.effective
            self._look = watch.effective + 1 >= watch.next_look
            if self._look:
                self.lost_updates.before(watch)

    def step_ends(self, optimizer: Optimizer, closure: bool) -> None:
        """Also compares what the step changed, and takes the time."""
        super().step_ends(optimizer, closure)
        watch = self.registry.known(optimizer)
        if watch is None:
            return
        if self._look and watch.effective > self._effective:
            self.lost_updates.after(watch, optimizer)
        self._stepped(watch)

    def _stepped(self, watch: OptimizerWatch) -> None:
        if watch.index != 0:
            return
        now, last = time.perf_counter(), self._last_step
        self._last_step = now
        self._idle.step_ended()
        alarms = [] if last is None else self.pace.step(watch.steps, now - last, self._work(watch))
        for alarm in [*alarms, *self.memory.step(watch.steps)]:
            self.judging.add(alarm, watch)

    def _work(self, watch: OptimizerWatch) -> tuple[int, int, int]:
        """What makes steps comparable: backward passes, gradients, elements of the batch."""
        return watch.rules.usual_backwards, watch.armed.present, self.batches.elements()

    def judged(self, step: Step, watch: OptimizerWatch | None) -> None:
        """Follows the loss."""
        if watch is None or not watch.adaptive or step.loss is None:
            return
        flat = self._flat.get(watch.index)
        if flat is None:
            flat = self._flat[watch.index] = FlatLoss.of(self.torch, watch.flat)
        if flat.add(step.loss, step.rate or 0.0):
            alarm = Alarm(codes.LOSS_FALLS, "warn", step.step, flat.text, "", watch.index)
            self.judging.add(alarm, watch)

    def counts(self) -> dict[str, object]:
        """What these codes observed."""
        flat = max(self._flat.values(), key=lambda each: each.steps, default=None)
        return {
            "updates": self.lost_updates.updates,
            "updates_lost": self.lost_updates.lost,
            "vocabulary": flat.vocabulary if flat is not None and flat.near else 0,
            "flat_steps": flat.steps if flat is not None else 0,
            "timed": self.pace.compared,
            "batches": self.pace.batches,
            "memory_windows": self.memory.windows,
        }

"""The watch: what the hooks report comes in, what the optimizers did is measured and judged."""

from __future__ import annotations

import os
import time
from math import isfinite
from types import ModuleType
from typing import TYPE_CHECKING, Callable

from . import codes, rules, step_alarms
from .adversaries import Adversaries
from .batches import Batches
from .clips import Clips
from .counts import rank_and_world
from .crossed import Crossed
from .early import Early
from .epoch_orders import EpochOrders
from .evaluations import Epochs, Evaluations
from .first_batches import FirstBatches
from .foreign import Foreign
from .hook_growth import HookGrowth
from .judging import Judging
from .jumps import Jumps
from .kept_states import KeptStates
from .last_error import last_error
from .optimizer_watch import OptimizerWatch
from .parameters import local
from .passes import Passes
from .readings import Readings
from .records import WARN, Alarm, Step
from .registry import Registry
from .replicas import Replicas
from .reported import Reported
from .scaling import Scaling
from .schedules import Schedules
from .settings import Settings
from .stacks import Stacks
from .twice_applied import TwiceApplied
from .waits import Waits
from .writer import OPEN_RECORDS, Writer

if TYPE_CHECKING:
    from torch.optim import Optimizer

DATA, EPOCHS = "data-counted", "data-epochs"
"""The files that tell `doctor guard` to judge the data."""


class Watch:
    """Everything that is known about the training in this process."""

    def __init__(self, torch: ModuleType, settings: Settings) -> None:
        self.torch = torch
        self.settings = settings
        self.readings: Readings[OptimizerWatch] = Readings(torch)
        self.values, self.steady = self.readings.values, self.readings.steady
        self.writer = Writer(settings.out, settings.shared)
        self.orders = EpochOrders(self.steady, self._epochs_compared)
        self.batches = Batches(torch, self.orders)
        self.judging = Judging(settings, self.readings, self.writer, self.batches)
        self.alarms, self.watches = self.judging.alarms, self.judging.watches
        context = self.judging.context
        self.kept_states = KeptStates(context)
        self.epochs = Epochs(self.steady)
        self.schedules = Schedules(context, self.epochs)
        self.resumed = self.schedules.resumed
        self.registry = Registry(self.judging, self.kept_states, self._optimizer_begins)
        self.reported = Reported(self.judging, self.registry, self.start)
        self.first_batches = FirstBatches(
            torch, self.steady, self.orders, self.registry.learns, self._write_data
        )
        self.jumps = Jumps(self.alarms.add)
        self.early = Early(context, self.batches, self.jumps, self.registry.only)
        self.adversaries, self.crossed = Adversaries(context), Crossed(context)
        self.early.searched = [self.adversaries.passes, self.crossed.passes]
        self.judging.sides = self.adversaries
        self.hook_growth = HookGrowth(context)
        self.waits = Waits(context, notes=not settings.all)
        self.jumps.look, self.judging.jumped = self.early.reopen, self.jumps.wait
        self.clips, self.passes = Clips(context), Passes(self.judging, self.registry)
        self.replicas = Replicas(self.writer, self.values)
        self.evaluations = Evaluations(context, self.epochs)
        self.scaling = Scaling(self.judging, self.registry, self.clips, self.start)
        self.stacks = Stacks()
        self.twice_applied = TwiceApplied()
        self.started = False
        self._without_gradients: list[OptimizerWatch] = []
        self.follows_gradients = False
        """Gradients that nothing has cleared are noted after the next backward pass."""
        self.end_if_wanted: Callable[[], None] = lambda: None
        self.batch_waited: Callable[[Foreign, float], None] | None = None
        """Gets the iterator of a DataLoader, and the seconds that a batch took."""

    # What the hooks report

    def backward_begins(self, root: Foreign) -> None:
        """An outermost backward() from `root`."""
        if not self.started:
            self.start()
        steady = self.steady
        steady.backwards += 1
        steady.read_all()
        for clearing in steady.uncleared:
            clearing.before_backward()
        steady.uncleared = [each for each in steady.uncleared if not each.cleared]
        self.passes.begins(root)
        self._without_gradients = [w for w in self.watches.values() if w.rules.lacks_gradients]
        followed = (
            steady.uncleared or self.passes.accumulation.suspicious or self._without_gradients
        )
        self.follows_gradients = bool(followed)
        loss = root if type(root) is self.torch.Tensor else self._inner(root)
        if loss is None or not loss.requires_grad or loss.numel() != 1:
            return
        if self.scaling.unscaled is not None:
            loss = self.scaling.loss_before(loss)
        value = self.values.hold(local(loss).reshape(()))
        if value is not None:
            steady.losses.append(value)
        if type(value) is float:
            self._loss_read(value, root)

    def _loss_read(self, value: float, root: Foreign) -> None:
        """The loss of a backward pass from `root`, before it begins."""
        self.steady.count_loss(value)
        if not isfinite(value):
            self.alarms.diagnosis.loss_is_not_finite(root)

    def backward_ends(self) -> None:
        """The outermost backward() returned; called if `follows_gradients`."""
        for clearing in self.steady.uncleared:
            clearing.note()
        for one in self._without_gradients:
            one.look_for_gradients()
        if self.passes.accumulation.suspicious:
            watch = self.registry.only()
            if watch is not None:
                self.passes.accumulation.ended(watch.clearing)

    def step_begins(self, optimizer: Optimizer, closure: bool) -> None:
        """The outermost step() of an optimizer; with a closure its gradients do not exist yet."""
        watch = self.watches.get(id(optimizer))
        if watch is None or watch.optimizer() is not optimizer:
            self.start()
            watch = self.registry.watch_of(optimizer)
        self.schedules.optimizer_steps(optimizer)
        if self.clips.scaler is not None:
            self.clips.steps_undivided(watch is not None and watch is self.registry.only())
        if watch is not None and not closure:
            if watch is self.registry.only() and self.passes.accumulation.steps(watch.clearing):
                passes = self.passes.accumulation.passes
                self.judging.add(
                    step_alarms.cleared_between(passes, watch.steps + 1, watch.index), watch
                )
            if self.judging.several:
                alarm = self.twice_applied.step(watch, self.steady.backwards)
                if alarm is not None:
                    self.judging.add(alarm, watch)
            if watch.effective + 1 >= watch.next_look:
                self.judging.before_look(watch)
            watch.measure(optimizer)

    def step_ends(self, optimizer: Optimizer, closure: bool) -> None:
        """The step was applied, unless a fused kernel left it out."""
        watch = self.watches.get(id(optimizer))
        if watch is not None and watch.optimizer() is optimizer:
            if closure:
                watch.measure(optimizer)
                self.passes.closures.step_ended(watch, optimizer)
            effective = watch.effective
            looks = effective + 1 >= watch.next_look
            watch.applied(optimizer)
            if looks and watch.effective > effective and watch.index < OPEN_RECORDS:
                self.replicas.record(watch)
            if looks and (text := self.epochs.are_kept()):
                alarm = Alarm(codes.LOADER_ADVANCES, WARN, watch.steps, text, "kept", watch.index)
                self.judging.add(alarm, watch)
            if not watch.clearing.set_to_none:
                watch.clearing.step_ended()
        self.steady.stepped_at = self.steady.backwards

    def step_logged(self, optimizer: Optimizer) -> None:
        """A step was logged, and somebody waits for it."""
        self.judging.end_logged(self.watches[id(optimizer)])

    # Beginning and end

    def start(self) -> None:
        """At the first backward or step: processes that never train write nothing."""
        if self.started:
            return
        self.started = True
        self.writer.open(*rank_and_world(self.torch))
        if self.settings.parent:
            self.stacks.offer(self.writer.path("stacks", "txt"), self.writer.opened)
        self.writer.write(
            "meta",
            rank=self.writer.rank,
            world=self.writer.world,
            pid=os.getpid(),
            started=int(time.time()),
            torch=str(self.torch.__version__),
            all=self.settings.all,
        )

    def close(self, how: str) -> None:
        """Write the last counts; `how` is "exit" or why the guard was switched off."""
        if how == "exit" and (self.passes.unstepped.empty or last_error()):
            self.start()  # what ended before its first pass has something to say
        if not self.started:
            return
        self.judging.judge_log()
        self.readings.fetch(self.steady.losses)
        self.values.finish()
        for watch in self.watches.values():
            watch.look_at_suspect()
        self.values.finish()
        self._judge_last_losses()
        self.jumps.close()
        self.waits.close()
        self.kept_states.close()
        if how == "exit" and not last_error():
            self.schedules.close()
            self.passes.unstepped.close()
            with self.torch.no_grad():
                self.judging.look_again()
            self.values.finish()
            self._judge_end()
        self.first_batches.report()
        self.judging.write_state()
        self.writer.write("end", how=how, **last_error())
        self.stacks.withdraw()
        self.writer.close()

    def _judge_end(self) -> None:
        """A training that has ended: whether it has learned anything, and from which batches."""
        if text := self.epochs.are_kept():
            step = self.judging.tally.steps
            self.judging.add(Alarm(codes.LOADER_ADVANCES, WARN, step, text, "kept"), None)
        watch = self.registry.only()
        if watch is not None and watch.index == 0 and not watch.ascends:
            level = watch.rules.level
            for alarm in level.alarms(self.early.classes, watch.adaptive, watch.steps):
                if alarm.code == codes.LOSS_FALLS:
                    self.judging.add(alarm, watch)
                else:  # not one that waits for more losses
                    self.alarms.add(alarm, watch)

    def _judge_last_losses(self) -> None:
        """The losses after the last step: the program may have ended because of them."""
        losses, scaled = self.steady.losses, self.steady.scaled
        self.readings.take_arrived(losses)
        number = self.judging.tally.steps + 1
        step = Step(0, number, losses=losses, skipped=True, scaled=scaled)
        if step.losses and not scaled:
            for alarm in rules.StepRules(0)._non_finite(step):
                self.judging.add(alarm, None)

    # What is known of the data

    def _write_data(self, fields: dict[str, Foreign]) -> None:
        self.writer.write("data", **fields)
        self.writer.first(DATA)

    def _epochs_compared(self) -> None:
        """Two epochs of a loader were read: the data are judged again."""
        self.first_batches.report()
        self.writer.first(EPOCHS)

    # Inside

    def _optimizer_begins(self) -> None:
        self.schedules.optimizer_began()
        self.kept_states.report_unloaded()

    def _inner(self, root: Foreign) -> Foreign:
        """The tensor that backward() starts from; None where there are several."""
        if isinstance(root, (list, tuple)) and len(root) == 1:
            root = root[0]
        return root if isinstance(root, self.torch.Tensor) else None

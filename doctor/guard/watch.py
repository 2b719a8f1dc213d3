"""The watch: what the hooks report comes in, alarms and records go out."""

from __future__ import annotations

import os
import time
from collections import deque
from types import ModuleType
from typing import TYPE_CHECKING, Callable

from . import logged, rules
from .alarms import Alarms
from .batches import Batches
from .counts import counts, rank_and_world
from .foreign import Foreign
from .optimizer_watch import OptimizerWatch
from .parameters import local
from .records import Alarm, Step
from .scaling import Scaling
from .settings import Settings
from .steady import Logged, Steady
from .values import Deliver, Scalar, Values
from .writer import Writer

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

MOST_OPTIMIZERS = 64
"""Optimizers that are watched; with one per parameter there can be hundreds."""
HISTORY = 200
"""Steps that are kept in memory for the first alarm."""
STATE_SECONDS = 10.0
FIRST_STATE = 10
"""Effective steps from which every comparison also writes the counts."""


class Watch:
    """Everything that is known about the training in this process."""

    def __init__(self, torch: ModuleType, settings: Settings) -> None:
        self.torch = torch
        self.settings = settings
        self.values = Values(torch)
        self.writer = Writer(settings.out)
        self.batches = Batches(torch)
        self.alarms = Alarms(self)
        self.rules: dict[int, rules.StepRules] = {}
        self.started = False
        self.rank, self.world = 0, 1
        self._judging_log = False
        self.steps = self.norms = self.looks = self.skipped = 0
        self.steady = Steady()
        self.scaling = Scaling(self)
        self.rates_read = 0
        self.history: deque[Step | Logged] = deque(maxlen=HISTORY)
        self.watches: dict[int, OptimizerWatch] = {}
        self.follows_gradients = False
        """Gradients that nothing has cleared are noted after the next backward pass."""
        self.end_if_wanted: Callable[[], None] = lambda: None
        self.began = self._state_at = time.monotonic()

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
        self.follows_gradients = bool(steady.uncleared)
        if steady.backwards - steady.stepped_at >= rules.LEAST_BACKWARDS:
            self._without_step()
        loss = root if type(root) is self.torch.Tensor else self._inner(root)
        if loss is None or not loss.requires_grad or loss.numel() != 1:
            return
        if self.scaling.unscaled is not None:
            loss = self.scaling.loss_before(loss)
        value = self.values.hold(local(loss).reshape(()))
        if value is not None:
            steady.losses.append(value)
        if type(value) is float:
            steady.count_loss(value)

    def backward_ends(self) -> None:
        """The outermost backward() returned; called if `follows_gradients`."""
        for clearing in self.steady.uncleared:
            clearing.note()

    def step_begins(self, optimizer: Optimizer, closure: bool) -> None:
        """The outermost step() of an optimizer; with a closure its gradients do not exist yet."""
        watch = self.watches.get(id(optimizer))
        if watch is None or watch.optimizer() is not optimizer:
            self.start()
            watch = self.watch_of(optimizer)
        if watch is not None and not closure:
            watch.measure(optimizer)

    def step_ends(self, optimizer: Optimizer, closure: bool) -> None:
        """The step was applied, unless a fused kernel left it out."""
        watch = self.watches.get(id(optimizer))
        if watch is not None and watch.optimizer() is optimizer:
            if closure:
                watch.measure(optimizer)
            watch.applied(optimizer)
            if not watch.clearing.set_to_none:
                watch.clearing.step_ended()
        self.steady.stepped_at = self.steady.backwards

    def step_logged(self, optimizer: Optimizer) -> None:
        """A step was logged, and somebody waits for it."""
        logged.end_step(self, self.watches[id(optimizer)])

    def step_reported(self, loss: Foreign, rate: float | None) -> None:
        """A step of a loop without an optimizer of torch.optim."""
        self.start()
        reported = self.rules.setdefault(-1, rules.StepRules(-1, self.rules))
        step = Step(-1, reported.applied + 1, rates=[] if rate is None else [float(rate)])
        tensor = isinstance(loss, self.torch.Tensor)

        def deliver(values: list[Foreign]) -> None:
            step.losses = [float(value) for value in values if value is not None]
            for value in step.losses:
                self.steady.count_loss(value)
            self.judge(reported, step, None, time.monotonic())

        if tensor:
            self.values.submit([local(loss).reshape(())], deliver)
        else:
            deliver([loss])

    # What the optimizers' watches ask

    @property
    def several(self) -> bool:
        """Whether more than one optimizer is watched."""
        return len(self.watches) > 1

    def judge_log(self) -> None:
        """Judge and write the steps that were logged."""
        if not self._judging_log:
            self._judging_log = True
            try:
                logged.judge(self)
            finally:
                self._judging_log = False

    def fetch(self, losses: list[Foreign]) -> None:
        """Read the losses of a GPU."""
        self.values.fetch([loss for loss in losses if type(loss) is Scalar])

    def take_arrived(self, losses: list[Foreign]) -> None:
        """Put numbers in the place of losses that have arrived; those that were lost go."""
        if any([type(loss) is Scalar for loss in losses]):
            numbers = [self.values.number(loss) for loss in losses]
            for loss, value in zip(losses, numbers):
                if type(loss) is Scalar and value is not None:
                    self.steady.count_loss(value)
            losses[:] = [value for value in numbers if value is not None]

    def submit_step(self, step: Step, tensors: list[Tensor], judge: Deliver) -> None:
        """Call `judge` with the values of the tensors, once the losses of the step are there."""

        def deliver(values: list[Foreign]) -> None:
            self.take_arrived(step.losses)
            judge(values)

        self.fetch(step.losses)
        self.values.submit(tensors, deliver)

    def judge_step(self, watch: OptimizerWatch, step: Step) -> None:
        """The values of a step have arrived."""
        self.judge_log()
        self.judge(watch.rules, step, watch, time.monotonic())

    def judge(
        self, step_rules: rules.StepRules, step: Step, watch: OptimizerWatch | None, now: float
    ) -> None:
        """Count, write and judge a step."""
        self.steps += 1
        self.skipped += step.skipped
        self.norms += step.norm is not None
        self.rates_read += step.rate is not None
        self.history.append(step)
        self.alarms.moment = step.moment
        if self.writer.takes(step.optimizer, step.step):
            self.writer.step(step, self.scaling.scale, now - self.began)
        alarms = step_rules.judge(step)
        if not step_rules.healthy:
            self.steady.read_all()
        for alarm in alarms:
            if step.unread:
                alarm.text += f"; the {step.unread} steps before it were not read"
            self.alarms.add(alarm, watch)
        self.write_state_again(now)

    def write_state_again(self, now: float) -> None:
        """Write the counts, from time to time."""
        if now - self._state_at > STATE_SECONDS:
            self._state_at = now
            self.write_state()

    def judge_look(self, watch: OptimizerWatch, alarms: list[Alarm]) -> None:
        """The values of a look have arrived."""
        self.looks += 1
        self.judge_log()
        self.alarms.moment = 0.0
        for alarm in alarms:
            self.alarms.add(alarm, watch)
        if watch.effective >= FIRST_STATE:
            self.write_state()  # a process that is killed later has written its counts

    # Beginning and end

    def start(self) -> None:
        """At the first backward or step: processes that never train write nothing."""
        if self.started:
            return
        self.started = True
        self.rank, self.world = rank_and_world(self.torch)
        self.writer.open(self.rank)
        self.writer.write(
            "meta",
            rank=self.rank,
            world=self.world,
            pid=os.getpid(),
            started=int(time.time()),
            torch=str(self.torch.__version__),
            all=self.settings.all,
        )

    def recent(self) -> list[Step]:
        """The last steps."""
        return [e if isinstance(e, Step) else logged.as_step(e) for e in self.history]

    def write_state(self) -> None:
        """Write the counts so far."""
        self.judge_log()
        self.writer.write("state", flush=True, **self.counts())

    def counts(self) -> dict[str, object]:
        """What was observed so far."""
        return counts(self)

    def close(self, how: str) -> None:
        """Write the last counts; `how` is "exit" or why the guard was switched off."""
        if not self.started:
            return
        self.judge_log()
        self.fetch(self.steady.losses)
        self.values.finish()
        self._pending_losses()
        self.write_state()
        self.writer.write("end", how=how)
        self.writer.close()

    def _pending_losses(self) -> None:
        """The losses after the last step: the program may have ended because of them."""
        self.take_arrived(self.steady.losses)
        step = Step(
            0, self.steps + 1, losses=self.steady.losses, skipped=True, scaled=self.scaling.active
        )
        if step.losses and not self.scaling.active:
            for alarm in rules.StepRules(0)._non_finite(step):
                self.alarms.add(alarm, None)

    # Inside

    def known(self, optimizer: Optimizer) -> OptimizerWatch | None:
        watch = self.watches.get(id(optimizer))
        return watch if watch is not None and watch.optimizer() is optimizer else None

    def watch_of(self, optimizer: Optimizer) -> OptimizerWatch | None:
        """The watch of an optimizer, a new one for a new optimizer; None for one too many."""
        watch = self.known(optimizer)
        if watch is None:
            self.judge_log()
            for key in [k for k, w in self.watches.items() if w.optimizer() is None]:
                del self.watches[key]
            if len(self.watches) < MOST_OPTIMIZERS:
                with self.torch.no_grad():
                    watch = OptimizerWatch(self, optimizer, len(self.rules))
                self.watches[id(optimizer)] = watch
                self.rules[watch.index] = watch.rules
                self.steady.read_all()
        return watch

    def _inner(self, root: Foreign) -> Foreign:
        """The tensor that backward() starts from; None where there are several."""
        if isinstance(root, (list, tuple)) and len(root) == 1:
            root = root[0]
        return root if isinstance(root, self.torch.Tensor) else None

    def _without_step(self) -> None:
        """Far more backward passes than usual since any optimizer stepped."""
        self.judge_log()
        count = self.steady.backwards - self.steady.stepped_at
        most = max((w.rules.most_backwards for w in self.watches.values()), default=0)
        if self.steps and count == most:
            self.alarms.without_step(count)

"""The schedulers of learning rates: how often they are stepped, and with what."""

from __future__ import annotations

import weakref
from typing import Callable, Iterable

from . import codes, resumed, schedule_rules
from . import thresholds as limit
from .context import Context
from .evaluations import Epochs
from .foreign import Foreign
from .look_rules import next_look
from .patches import Patches
from .rates import number
from .resumed import Resumed
from .schedule_rules import Found, Use
from .switch import Switch

MOST_METRICS, MOST_SCHEDULES = 512, 64
FROM_THE_FIRST = ("CosineAnnealingWarmRestarts", "CyclicLR", "LambdaLR", "OneCycleLR")
"""Schedules that compute each rate from the first one."""
FIRST_LOOK = 20
"""Calls of a scheduler before they are judged; then as parameters are compared."""


class Schedule:
    """One scheduler: its calls of step() after that of its constructor, and since when.

    `watch` is that of its optimizer, once it has stepped. `explicit`: it is told the epoch.
    """

    def __init__(self, scheduler: Foreign, backwards: int) -> None:
        self.scheduler, self.optimizer = weakref.ref(scheduler), weakref.ref(scheduler.optimizer)
        self.name, self.horizon = type(scheduler).__name__, _horizon(scheduler)
        self.plateau = self.name == "ReduceLROnPlateau"
        self.mode: str = scheduler.mode if self.plateau else ""
        self.patience: int = scheduler.patience if self.plateau else 0
        self.metrics: list[float] = []
        self.calls, self.next, self.explicit = 0, FIRST_LOOK, False
        self.watch: Foreign = None
        self.steps, self.backwards = 0, backwards
        self.initial = 0.0

    def bind(self, watches: Iterable[Foreign]) -> None:
        """Find the watch of its optimizer, or of one with the same groups, as a wrapper has."""
        optimizer = self.optimizer()
        if self.watch is None and optimizer is not None:
            groups = {id(group) for group in optimizer.param_groups}
            for watch in watches:
                if any(id(group) in groups for group in watch.groups):
                    self.watch, self.steps = watch, watch.armed.steps
                    rates = [number(group.get("initial_lr")) for group in watch.groups]
                    self.initial = max((rate for rate in rates if rate is not None), default=0.0)


class Schedules:
    """All of them. `depth`: within the step() of one, which may step others."""

    def __init__(self, context: Context, epochs: Epochs) -> None:
        self._context, self._steady, self._epochs = context, context.steady, epochs
        self.resumed = Resumed()
        self.depth = 0
        self._all: dict[int, Schedule] = {}
        self._told: set[str] = set()
        self._called: dict[int, tuple[Foreign, int, int]] = {}
        """Of an optimizer: its scheduler that was called last, after how many steps, and how often
        another one was called after the same step."""

    def optimizer_steps(self, optimizer: Foreign) -> None:
        """An optimizer begins a step."""
        if self.resumed.waits:
            self._report(self.resumed.steps(optimizer))

    def optimizer_began(self) -> None:
        """An optimizer is about to step for the first time."""
        for schedule in self._all.values():
            schedule.bind(self._context.watches())

    def stepped(self, scheduler: Foreign, args: Foreign, kwargs: Foreign) -> None:
        """The outermost step() of a scheduler returned."""
        schedule = self._known(scheduler)
        first = (
            getattr(scheduler, "_is_initial", False) or scheduler.__dict__.get("_step_count") == 1
        )
        if self.resumed.waits:
            self.resumed.scheduler_stepped(scheduler, bool(first), bool(args or kwargs))
        if schedule is None or (first and not schedule.plateau):
            return
        schedule.calls += 1
        if schedule.watch is not None and not schedule.plateau:
            self._compare(schedule)
        if schedule.plateau:
            self._take_metric(schedule, args[0] if args else kwargs.get("metrics"))
        else:
            schedule.explicit |= bool(args or kwargs)
        if schedule.calls >= schedule.next or schedule.watch is None:
            schedule.next = max(FIRST_LOOK, next_look(schedule.calls))
            self._judge(schedule, schedule_rules.now)

    def _compare(self, schedule: Schedule) -> None:
        """Whether another scheduler was called after the same step, and one of them computes each
        rate from the first one: it undoes what the other does."""
        key, steps = id(schedule.optimizer()), schedule.watch.armed.steps
        other, at, count = self._called.get(key, (schedule, -1, 0))
        if other is not schedule and at == steps and steps:
            count += 1
            first = next((s for s in (schedule, other) if s.name in FROM_THE_FIRST), None)
            if count == limit.OVERRIDDEN and first is not None and other.name != schedule.name:
                lost = other if first is schedule else schedule
                text = (
                    f"{schedule.name} and {other.name} are both called after each step of the same "
                    f"optimizer: {first.name} computes the learning rate from the first one, and "
                    f"undoes what {lost.name} sets"
                )
                self._report(iter([("overridden", text)]))
        self._called[key] = schedule, steps, count

    def close(self) -> None:
        """The training has ended by itself."""
        for schedule in self._all.values():
            self._judge(schedule, schedule_rules.now)
            self._judge(schedule, schedule_rules.at_the_end)

    def _known(self, scheduler: Foreign) -> Schedule | None:
        schedule = self._all.get(id(scheduler))
        if schedule is not None and schedule.scheduler() is scheduler:
            return schedule
        if len(self._all) >= MOST_SCHEDULES or not hasattr(scheduler, "optimizer"):
            return None
        self._context.tally.schedules += 1
        schedule = self._all[id(scheduler)] = Schedule(scheduler, self._steady.backwards)
        return schedule

    def _take_metric(self, schedule: Schedule, value: Foreign) -> None:
        metric = number(value)
        if metric is not None and metric == metric and len(schedule.metrics) < MOST_METRICS:
            schedule.metrics.append(metric)
            self._report(schedule_rules.plateau(schedule.metrics, schedule.mode, schedule.patience))

    def _judge(self, schedule: Schedule, rules: Callable[[Use], Found]) -> None:
        schedule.bind(self._context.watches())
        if schedule.explicit or schedule.plateau:
            return
        if schedule.watch is None:
            self._report(self._of_another(schedule))
            return
        rates, calls = schedule.watch.rates, schedule.calls
        of_the_same = [s.calls for s in self._all.values() if s.watch is schedule.watch]
        now = [rate for g in schedule.watch.groups if (rate := number(g.get("lr"))) is not None]
        use = Use(
            schedule.name,
            calls,
            schedule.horizon,
            schedule.watch.armed.steps - schedule.steps,
            self._steady.backwards - schedule.backwards,
            self._epochs.batches,
            self._epochs.count,
            schedule.initial,
            max(now or [rates.previous]),
            max(rates.highest, default=0.0),
            rates.turns,
            sum(of_the_same) - calls,
        )
        self._report(rules(use))

    def _of_another(self, schedule: Schedule) -> Found:
        """It changes the rates of an optimizer that never steps, and another one trains its
        parameters, at the same rate all the time."""
        optimizer = schedule.optimizer()
        if optimizer is None or schedule.calls < 2:
            return
        own = {id(p) for group in optimizer.param_groups for p in group["params"]}
        for watch in self._context.watches():
            constant = watch.steps >= limit.IDLE_FROM and watch.rates.changes <= 1
            if constant and any(id(p) in own for p in watch.flat):
                text = (
                    f"{schedule.name} changes the learning rates of a {type(optimizer).__name__} "
                    f"that never steps; the {watch.name} that trains its parameters keeps "
                    f"{watch.rates.previous:.3g}"
                )
                yield "other-optimizer", text

    def _report(self, found: Found) -> None:
        for cause, text in found:
            if cause not in self._told:
                self._told.add(cause)
                self._context.warn(codes.SCHEDULE_FITS, text, cause)


def _horizon(scheduler: Foreign) -> int:
    """Of how many calls a schedule consists, 0 where that is not known."""
    values = scheduler.__dict__
    value = values.get("T_max") or values.get("total_steps")
    if type(scheduler).__name__ == "PolynomialLR":
        value = values.get("total_iters")
    for function in values.get("lr_lambdas") or ():  # of transformers
        value = value or (getattr(function, "keywords", None) or {}).get("num_training_steps")
    return int(value) if isinstance(value, (int, float)) and value > 0 else 0


def install(switch: Switch, patches: Patches, schedules: Schedules) -> None:
    """Wrap step() of the classes that have their own."""
    resumed.install(switch, patches, schedules.resumed)
    module = switch.torch.optim.lr_scheduler
    base = getattr(module, "LRScheduler", None) or module._LRScheduler
    for owner in {id(each): each for each in vars(module).values()}.values():
        own = isinstance(owner, type) and "step" in vars(owner)
        if own and (issubclass(owner, base) or owner.__name__ == "ReduceLROnPlateau"):
            patches.replace(owner, "step", lambda original: _step(switch, schedules, original))


def _step(switch: Switch, schedules: Schedules, original: Callable[..., Foreign]) -> Foreign:
    def step(self: Foreign, *args: Foreign, **kwargs: Foreign) -> Foreign:
        if schedules.depth:
            return original(self, *args, **kwargs)
        schedules.depth = 1
        if schedules.resumed.waits:
            switch.safely(schedules.resumed.scheduler_begins, self)
        try:
            result = original(self, *args, **kwargs)
        finally:
            schedules.depth = 0
        switch.safely(schedules.stepped, self, args, kwargs)
        return result

    return step

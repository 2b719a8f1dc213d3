"""One optimizer: its steps, its gradients, its parameters."""

from __future__ import annotations

import math
import time
import weakref
from typing import TYPE_CHECKING, Protocol

from . import look_rules
from . import thresholds as limit
from .clearing import Clearing
from .compensation import compensates
from .foreign import Foreign
from .gradient_norms import GradientNorms, root
from .names import names_of
from .parameters import Parameters, local, part
from .rates import Rates, number
from .readings import Readings
from .records import Alarm, Look, Step
from .rules import StepRules
from .settings import Settings
from .steady import Armed
from .step_alarms import groups_alarm, rate_alarm
from .zero_gradients import ZeroGradients

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

ADAPTIVE = frozenset(
    ("Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Muon", "NAdam", "RMSprop", "Rprop",
     "SparseAdam")
)  # fmt: skip
"""The optimizers of torch.optim whose first step does not shrink with the gradient. A name says
nothing of others: schedule-free RAdam updates nothing for its first steps, as torch's RAdam may."""
COUNT_EVERY, COUNT_EVERY_LATER = 50, 200
"""Steps after which the gradients that are None are counted again, although one is present; and
where nothing has been unusual for long."""


class Judge(Protocol):
    """Takes what was measured; `several`: more than one optimizer is watched."""

    several: bool

    def judge_log(self) -> None:
        """Judge the steps that were logged."""

    def judge_step(self, watch: OptimizerWatch, step: Step) -> None:
        """The values of a step have arrived."""

    def judge_look(self, watch: OptimizerWatch, alarms: list[Alarm]) -> None:
        """The values of a look have arrived."""

    def look_at_model(self, watch: OptimizerWatch, effective: int) -> None:
        """The parameters are being compared after so many effective steps."""

    def examine(self, watch: OptimizerWatch, step: Step) -> None:
        """The gradients of this step were not finite, and it was applied: read the weights."""

    def add(self, alarm: Alarm, watch: OptimizerWatch) -> None:
        """An alarm."""


class OptimizerWatch:
    """Watches one optimizer, which it does not keep alive."""

    def __init__(
        self,
        optimizer: Optimizer,
        rules: StepRules,
        settings: Settings,
        readings: Readings[OptimizerWatch],
        judge: Judge,
    ) -> None:
        self.torch = readings.torch
        self.settings = settings
        self.readings, self.steady = readings, readings.steady
        self.judge = judge
        self.index = rules.index
        self.name = type(optimizer).__name__
        own = type(optimizer).__module__.startswith("torch.optim.")
        self.adaptive = own and self.name in ADAPTIVE
        steady, key = self.steady, id(optimizer)
        self.optimizer = weakref.ref(optimizer, lambda dead: steady.disarm(key))
        self.rules = rules
        self.clearing = Clearing()
        self.armed = Armed(self, self.optimizer, key, self.clearing)
        self.stepped = False
        """Set by step(), cleared by a loss scaler before it calls step() or does not."""
        self.whole_norm = True
        self.clips = False
        """The loop takes the norm of the gradients itself."""
        self.without_backward = False
        """The last step came without a backward pass since the one before."""
        self.reached = False
        """After steps without a gradient: the last backward pass left some that are not 0."""
        self.suspect: Step | None = None
        """A step with gradients that are not finite, until the weights after it were read."""
        self.rates_now: list[float | None] = []
        self._start(optimizer)

    def _start(self, optimizer: Optimizer) -> None:
        """Compare with the parameters as they are now."""
        groups = [list(group["params"]) for group in optimizer.param_groups]
        flat = [p for group in groups for p in group]
        self.armed.unapplied, self.fused_skips = self.armed.steps, 0
        made = self.steady.groups_made.get(optimizer, []) if not self.armed.steps else []
        self.rates = Rates(len(groups), made)
        self.next_look = 1
        self.tiny_since = self.between = 0
        self.stays = False
        self._names: dict[int, str] | None = None
        self.zero_gradients = ZeroGradients(self.torch)
        self.unreached = {index for index, p in enumerate(flat) if p.requires_grad}
        self.norms = GradientNorms(self.torch, groups)
        self.parameters = Parameters(self.torch, groups)
        self.parameters.classify(self.readings.values.submit)

    @property
    def steps(self) -> int:
        """Steps of this optimizer."""
        return self.armed.steps

    @property
    def applied_steps(self) -> int:
        """Of them, those that were applied, as far as the loop is concerned."""
        return self.armed.steps - self.armed.unapplied

    @property
    def effective(self) -> int:
        """Steps that should have changed weights, as far as is known."""
        return self.applied_steps - self.fused_skips

    @property
    def may_thin(self) -> bool:
        """Whether some steps need not be read: nothing has been unusual for long."""
        if self.settings.all or self.judge.several:
            return False
        return self.rules.healthy >= limit.READ_ALL and self.clearing.set_to_none

    @property
    def rising(self) -> bool:
        """Whether the learning rate has risen in the last steps."""
        return 1 < self.rates.risen_at > self.applied_steps - 3

    @property
    def flat(self) -> list[Foreign]:
        """The parameters, in the order of the groups; [] when the optimizer is gone."""
        return [p for group in self.groups for p in group["params"]]

    @property
    def groups(self) -> list[Foreign]:
        """Its groups of parameters; [] when it is gone."""
        optimizer = self.optimizer()
        return [] if optimizer is None else list(optimizer.param_groups)

    @property
    def names(self) -> dict[int, str]:
        """Position -> name in the model, looked up when an alarm needs it."""
        if self._names is None:
            self._names = names_of(self.torch, self.flat)
        return self._names

    def measure(self, optimizer: Optimizer) -> None:
        """Read what belongs to this step, and judge it when the values are there."""
        self.judge.judge_log()
        self.armed.steps += 1
        self.armed.unapplied += 1
        self.stepped = True
        with self.torch.no_grad():
            self._measure(optimizer)

    def _measure(self, optimizer: Optimizer) -> None:
        flat = self.flat
        if len(flat) != self.parameters.count:
            self._start(optimizer)
        gradients = [p.grad for p in flat]
        without = sum([gradient is None for gradient in gradients])
        if self.unreached:
            self.unreached = {i for i in self.unreached if gradients[i] is None}
        step = self._step(optimizer, without, len(flat))
        norms = self._norms(gradients, len(flat) - without, step)
        applied = self._applied_norms(gradients)
        extra = []
        if optimizer.__dict__.get("found_inf") is not None:
            names = ("found_inf", "grad_scale")
            extra = [
                local(t) for t in (getattr(optimizer, n, None) for n in names) if t is not None
            ]
        self.clearing.choose(flat, gradients)
        if limit.SETTLED <= self.effective < limit.BETWEEN and self.parameters.fit(flat):
            self._compare_between(flat)
        self.armed.present = len(flat) - without

        taken, both = len(norms), len(norms) + len(applied)

        def judge(values: list[Foreign]) -> None:
            if applied and None not in values[taken:both]:
                step.applied = root(values[taken:both])
            self._judge(step, values[:taken], values[both:])

        self.readings.submit_step(step, norms + applied + extra, judge)

    def _arm(self, optimizer: Optimizer) -> None:
        """Let the hooks log the next steps, if they look like this one."""
        armed, clearing = self.armed, self.clearing
        accumulates = self.rules.usual_backwards >= limit.ACCUMULATED
        if (
            (accumulates and self.effective < limit.ACCUMULATED_UNTIL)
            or self.unreached
            or self.without_backward
            or self.steady.scaled
            or self.settings.protect
            or clearing.position is None
            or "found_inf" in optimizer.__dict__
        ):
            return
        count_every = COUNT_EVERY_LATER if self.may_thin else COUNT_EVERY
        armed.until = armed.steps + min(self.next_look - self.effective, count_every)
        armed.groups = len(optimizer.param_groups)
        armed.few = [] if self.whole_norm else self.norms.copied
        self.steady.arm(armed)

    def _step(self, optimizer: Optimizer, without: int, parameters: int) -> Step:
        armed, steady = self.armed, self.steady
        step = Step(self.index, armed.steps, without=without, parameters=parameters)
        step.rates = [number(group.get("lr")) for group in optimizer.param_groups]
        step.backwards = steady.backwards - armed.backwards
        step.scaled = steady.scaled
        step.moment = time.time()
        step.reached, self.reached = self.reached, False
        step.losses = steady.take_losses()
        step.unread = armed.steps - 1 - armed.read_at
        armed.read_at = armed.judged = armed.steps
        self.rates_now = step.rates
        armed.backwards = steady.backwards
        armed.bad_losses = steady.bad_losses
        if step.backwards:
            self.rules.usual_backwards = step.backwards
            step.uncleared = self.clearing.next_step()
            if self.clearing not in steady.uncleared:
                steady.uncleared.append(self.clearing)
        self.without_backward = not step.backwards
        step.repeated = self.clearing.same_as_before(self.without_backward)
        return step

    def _norms(self, gradients: list[Tensor], present: int, step: Step) -> list[Foreign]:
        """Scalars whose squares add up to that of the norm."""
        clipped = self.steady.take_norm(present)
        self.clips = clipped is not None
        if clipped is not None:
            step.whole = True
            return [local(clipped)]
        whole = self.whole_norm or self.effective + 1 >= self.next_look
        norms, step.whole = self.norms.take(gradients, whole)
        step.apart = step.whole and not self.norms.few_are_all
        return norms

    def _applied_norms(self, gradients: list[Tensor]) -> list[Foreign]:
        """The same of the gradients as they are now, at comparisons, where the loop took a norm."""
        if not self.clips or self.effective + 1 < self.next_look:
            return []
        return self.norms.take(gradients, True)[0]

    def _judge(self, step: Step, norms: list[Foreign], extra: list[Foreign]) -> None:
        """The values have arrived."""
        if extra and extra[0] is not None:
            step.scaled, step.skipped = True, extra[0] != 0.0
            self.fused_skips += step.skipped
        if norms and None not in norms:
            step.norm = root(norms)
            if len(extra) > 1 and extra[1]:
                step.norm /= extra[1]
        self.whole_norm = not step.norm or not math.isfinite(step.norm)
        self.judge.judge_step(self, step)

    def look_for_gradients(self) -> None:
        """After a backward pass: whether they are there; this may wait for a device."""
        gradients = [p.grad for p in self.flat if p.grad is not None]
        self.reached = any(bool(part(gradient).any()) for gradient in gradients[:16])

    def skip(self) -> None:
        """The loss scaler did not call step()."""
        optimizer = self.optimizer()
        if optimizer is None:
            return
        self.judge.judge_log()
        self.armed.steps += 1
        self.armed.unapplied += 1
        step = self._step(optimizer, 0, len(self.flat))
        step.skipped = step.scaled = True
        self.steady.take_norm(-1)
        self.readings.submit_step(step, [], lambda values: self.judge.judge_step(self, step))

    def applied(self, optimizer: Optimizer) -> None:
        """After the step: compare the parameters, at some steps."""
        self.steady.disarm(id(optimizer))
        self.change_rates(self.rates_now, self.applied_steps + 1, self.steps)
        self.look_at_suspect()
        if self.rates.largest == 0.0:
            return
        self.armed.unapplied -= 1
        if self.effective >= self.next_look:
            with self.torch.no_grad():
                self._compare(optimizer, self.effective)
        self._arm(optimizer)

    def change_rates(self, rates: list[float | None], applied: int, step: int) -> None:
        """The learning rates of the step that may become the applied one of this number."""
        before, fell = max(self.rates.highest, default=0.0), self.rates.fell
        at, apart = (self.index, step), self.rates.apart
        if self.rates.change(rates, applied):
            alarms = rate_alarm(rates, before, fell, at)
            if apart and self.rates.known <= 2:
                alarms += groups_alarm(rates, apart, at)
            for alarm in alarms:
                self.judge.add(alarm, self)

    def look_at_suspect(self) -> None:
        """After a step with gradients that are not finite: whether the weights are."""
        step, self.suspect = self.suspect, None
        if step is not None:
            self.judge.examine(self, step)

    def _compare(self, optimizer: Optimizer, effective: int) -> None:
        self.next_look = look_rules.next_look(effective)
        self.judge.look_at_model(self, effective)
        unreached = self.unreached
        if self.parameters.blocks:
            self._look(optimizer, effective, self.steps)
        if effective >= limit.NEVER_REACHED and unreached:
            look = self.index, self.steps, effective
            alarms = look_rules.never_reached(sorted(unreached), self.names, look, len(self.flat))
            for alarm in alarms:
                self.judge.add(alarm, self)
            self.unreached = set()

    def _compare_between(self, flat: list[Tensor]) -> None:
        """Whether what the last step changed is still changed before the next one."""

        def deliver(values: list[Foreign]) -> None:
            self.between += 1
            self.stays |= any(distance is None or distance != 0.0 for distance in values)

        distances = [block.distance(flat) for block in self.parameters.blocks.values()]
        self.readings.values.submit(distances, deliver)

    def _look(self, optimizer: Optimizer, effective: int, step: int) -> None:
        flat = self.flat
        if not self.parameters.fit(flat):
            self._start(optimizer)
            return
        rates = self.rates
        tiny = rates.previous <= look_rules.HALF_SMALLEST
        self.tiny_since = (self.tiny_since or effective) if tiny else 0
        initial = [number(group.get("initial_lr")) or 0.0 for group in optimizer.param_groups]
        look = Look(
            self.index,
            step,
            effective,
            self.parameters.tracked,
            list(rates.highest),
            peak=max([*initial, *rates.highest]),
            rising=self.rising,
            adaptive=self.adaptive,
            compensated=self.compensated(optimizer),
            name=self.name,
            rate=rates.previous,
            tiny_since=self.tiny_since,
            undone=self.between >= limit.UNDONE and not self.stays and not self.judge.several,
        )

        def done() -> None:
            self.judge.judge_look(self, look_rules.judge(look))

        self.parameters.look(flat, self.readings.values.submit, done)
        if effective >= limit.MODES_FROM:
            self.zero_gradients.look(flat, self.parameters.tracked, self.readings.values.submit)
            if self.zero_gradients.found:
                self.names  # noqa: B018 - at the end the model may be gone

    def at_the_end(self) -> list[Alarm]:
        """The alarms for a schedule that ended before, and for parameters without gradients."""
        return [*self.rules.ended(self.steps), *self._untrained()]

    def _untrained(self) -> list[Alarm]:
        """The alarms for those that never had a gradient, or whose gradients were always 0."""
        tracked, effective = self.parameters.tracked, self.effective
        if self.unreached and effective >= limit.NEVER_REACHED_AT_END:
            look = self.index, self.steps, effective
            count = self.parameters.count
            return look_rules.never_reached(sorted(self.unreached), self.names, look, count)
        if all(each.gradient for each in tracked):
            return []
        alarm = self.zero_gradients.alarm(tracked, self.names, self)
        return [] if alarm is None else [alarm]

    def compensated(self, optimizer: Optimizer) -> bool:
        """Whether 16-bit weights keep what rounding takes away."""
        return self.parameters.half and compensates(optimizer, self.flat)

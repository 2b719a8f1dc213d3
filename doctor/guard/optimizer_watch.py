"""One optimizer: its steps, its gradients, its parameters."""

from __future__ import annotations

import math
import time
import weakref
from typing import TYPE_CHECKING, Protocol

from . import look_rules
from . import thresholds as limit
from .clearing import Clearing
from .compared import Compared
from .foreign import Foreign
from .gradient_norms import GradientNorms, root
from .parameters import local, part
from .rates import Rates, number
from .readings import Readings
from .records import Alarm, Step
from .rules import StepRules
from .settings import Settings
from .steady import Armed
from .step_alarms import groups_alarm, rate_alarm

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

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


class OptimizerWatch(Compared):
    """Watches one optimizer, which it does not keep alive."""

    def __init__(
        self,
        optimizer: Optimizer,
        rules: StepRules,
        settings: Settings,
        readings: Readings[OptimizerWatch],
        judge: Judge,
    ) -> None:
        steady, key = readings.steady, id(optimizer)
        reference = weakref.ref(optimizer, lambda dead: steady.disarm(key))
        super().__init__(reference, type(optimizer), rules.index, readings)
        self.settings, self.rules, self.judge = settings, rules, judge
        self.readings, self.steady = readings, steady
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
        self.armed.unapplied, self.fused_skips = self.armed.steps, 0
        made = self.steady.groups_made.get(optimizer, []) if not self.armed.steps else []
        self.rates = Rates(len(groups), made)
        self.norms = GradientNorms(self.torch, groups)
        self.begin(groups)

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
        usual = not self.settings.all and not self.judge.several
        return usual and self.rules.healthy >= limit.READ_ALL and self.clearing.set_to_none

    @property
    def rising(self) -> bool:
        """Whether the learning rate has risen in the last steps."""
        return 1 < self.rates.risen_at > self.applied_steps - 3

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
        self.unreached = {i for i in self.unreached if gradients[i] is None}
        step = self._step(optimizer, without, len(flat))
        norms = self._norms(gradients, len(flat) - without, step)
        applied = self._applied_norms(gradients)
        extra = []
        if optimizer.__dict__.get("found_inf") is not None:
            scaling = (getattr(optimizer, name, None) for name in ("found_inf", "grad_scale"))
            extra = [local(each) for each in scaling if each is not None]
        self.clearing.choose(flat, gradients)
        if limit.SETTLED <= self.effective < limit.BETWEEN and self.parameters.fit(flat):
            self.compare_between(flat)
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

    def skip(self, optimizer: Optimizer) -> None:
        """The loss scaler did not call step()."""
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
            if self.parameters.fit(self.flat):
                look = self.look(optimizer, self.rates, self.steps, effective, rising=self.rising)
                look.undone &= not self.judge.several
                self.judge_when_read(look, lambda alarms: self.judge.judge_look(self, alarms))
            else:
                self._start(optimizer)
        if effective >= limit.NEVER_REACHED and unreached:
            for alarm in self.never_reached(unreached, self.steps, effective):
                self.judge.add(alarm, self)
            self.unreached = set()

    def at_the_end(self) -> list[Alarm]:
        """The alarms for a schedule that ended before, and for parameters without gradients."""
        return [*self.rules.ended(self.steps), *self.untrained(self.steps, self.effective)]

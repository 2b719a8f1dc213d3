"""One optimizer: its steps, its gradients, its parameters."""

from __future__ import annotations

import math
import re
import time
import weakref
from typing import TYPE_CHECKING, Any

from . import look_rules
from . import thresholds as limit
from .clearing import Clearing
from .compensation import compensates
from .diagnosis import names_of
from .gradient_norms import GradientNorms, root
from .parameters import Parameters, local
from .records import Look, Step
from .rules import StepRules

if TYPE_CHECKING:
    from .watch import Watch

ADAPTIVE = re.compile(
    r"adam|adafactor|lion|lamb|adopt|soap|shampoo|muon|rmsprop|rprop|adagrad|prodigy|sophia|came",
    re.IGNORECASE,
)
"""Names of optimizers whose steps do not shrink with the gradient."""
COUNT_EVERY = 50
"""Steps after which the gradients that are None are counted again, although one is present."""


class OptimizerWatch:
    """Watches one optimizer, which it does not keep alive."""

    def __init__(self, watch: Watch, optimizer: Any, index: int) -> None:
        self.watch = watch
        self.torch = watch.torch
        self.index = index
        self.name = type(optimizer).__name__
        self.adaptive = bool(ADAPTIVE.search(self.name))
        self.optimizer = weakref.ref(optimizer)
        self.rules = StepRules(index, watch.rules, all_codes=watch.settings.all)
        self.clearing = Clearing()
        self.steps = self.backwards_at_step = 0
        self.stepped = False
        """Set by step(), cleared by a loss scaler before it calls step() or does not."""
        self.whole_norm = True
        self.rates_now: list[float | None] = []
        self.bad_losses = self.present = self.count_at = self.group_count = 0
        self.sample = (0, 0)
        self._start(optimizer)

    def _start(self, optimizer: Any) -> None:
        """Compare with the parameters as they are now."""
        groups = [list(group["params"]) for group in optimizer.param_groups]
        flat = [p for group in groups for p in group]
        self.applied_steps = self.fused_skips = 0
        self.rates = [0.0] * len(groups)
        self.previous_rate, self.risen_at = 0.0, 0
        self.rates_before: list[float | None] | None = None
        self.largest_rate = 0.0
        self.next_look = 1
        self.tiny_since = self.between = 0
        self.stays = False
        self._names: dict[int, str] | None = None
        self.unreached = {index for index, p in enumerate(flat) if p.requires_grad}
        self.norms = GradientNorms(self.torch, groups)
        self.parameters = Parameters(self.torch, groups)
        self.parameters.classify(self.watch.values.submit)

    @property
    def effective(self) -> int:
        """Steps that should have changed weights, as far as is known."""
        return self.applied_steps - self.fused_skips

    @property
    def rising(self) -> bool:
        """Whether the learning rate has risen in the last steps."""
        return 1 < self.risen_at > self.applied_steps - 3

    @property
    def flat(self) -> list[Any]:
        """The parameters, in the order of the groups; [] when the optimizer is gone."""
        optimizer = self.optimizer()
        groups = optimizer.param_groups if optimizer is not None else ()
        return [p for group in groups for p in group["params"]]

    @property
    def names(self) -> dict[int, str]:
        """Position -> name in the model, looked up when an alarm needs it."""
        if self._names is None:
            self._names = names_of(self.torch, self.flat)
        return self._names

    def measure(self, optimizer: Any) -> None:
        """Read what belongs to this step, and judge it when the values are there."""
        self.steps += 1
        self.stepped = True
        if not self._measure_healthy(optimizer):
            with self.torch.no_grad():
                self._measure(optimizer)

    def _measure_healthy(self, optimizer: Any) -> bool:
        """Defer a step of which no rule can say anything; False where one may, or on a device.

        Most steps of most runs are measured here and nowhere else: a few reads, no new objects.
        """
        watch, groups, clearing = self.watch, optimizer.param_groups, self.clearing
        effective = self.applied_steps - self.fused_skips
        if (
            effective + 1 >= self.next_look
            or self.steps >= self.count_at
            or len(groups) != self.group_count
            or self.unreached
            or not clearing.cleared
            or watch.backwards == self.backwards_at_step
            or watch.bad_losses != self.bad_losses
            or watch.scaling.active
            or watch.values.pending
            or "found_inf" in optimizer.__dict__
        ):
            return False
        rates = [group.get("lr") for group in groups]
        for rate in rates:
            if type(rate) is not float or not rate > 0.0:
                return False
        norm = self._healthy_norm(groups)
        if norm is None or not 0.0 < norm < math.inf:
            return False
        self.rates_now = rates
        self.rules.usual_backwards = backwards = watch.backwards - self.backwards_at_step
        self.backwards_at_step = watch.backwards
        clearing.next_step()
        watch.defer(self, backwards, norm, rates)
        return True

    def _healthy_norm(self, groups: list[dict[str, Any]]) -> float | None:
        """The norm of the gradients where the loop has it or it is cheap, else None."""
        computed = self.watch.norm
        if computed is None or computed[0] != self.present:
            return None if self.whole_norm else self.norms.of_few(groups)
        group, index = self.sample
        norm = computed[1]
        if type(norm) is not self.torch.Tensor or not norm.is_cpu:
            return None
        return None if groups[group]["params"][index].grad is None else norm.item()

    def _measure(self, optimizer: Any) -> None:
        flat = self.flat
        if len(flat) != self.parameters.count:
            self._start(optimizer)
        gradients = [p.grad for p in flat]
        without = sum([gradient is None for gradient in gradients])
        if self.unreached:
            self.unreached = {i for i in self.unreached if gradients[i] is None}
        step = self._step(optimizer, without, len(flat))
        norms = self._norms(gradients, len(flat) - without, step)
        extra = []
        if "found_inf" in optimizer.__dict__ and optimizer.found_inf is not None:
            names = ("found_inf", "grad_scale")
            extra = [
                local(t) for t in (getattr(optimizer, n, None) for n in names) if t is not None
            ]
        self.clearing.choose(flat, gradients)
        if limit.SETTLED <= self.effective < limit.BETWEEN and self.parameters.fit(flat):
            self._compare_between(flat)
        self._remember(optimizer, len(flat) - without)

        def deliver(values: list[Any]) -> None:
            self._judge(step, values[: len(norms)], values[len(norms) :])

        self.watch.values.submit(norms + extra, deliver)

    def _remember(self, optimizer: Any, present: int) -> None:
        """What the next steps are compared with, so that they need not be counted."""
        self.present = present
        self.count_at = self.steps + COUNT_EVERY
        self.group_count = len(optimizer.param_groups)
        position = self.clearing.position or 0
        for group, entry in enumerate(optimizer.param_groups):
            if position < len(entry["params"]):
                self.sample = group, position
                return
            position -= len(entry["params"])

    def _step(self, optimizer: Any, without: int, parameters: int) -> Step:
        watch = self.watch
        step = Step(self.index, self.steps, without=without, parameters=parameters)
        step.rates = [_number(group.get("lr")) for group in optimizer.param_groups]
        step.backwards = watch.backwards - self.backwards_at_step
        step.scaled = watch.scaling.active
        step.moment = time.time()
        step.losses = watch.take_losses()
        self.rates_now = step.rates
        self.backwards_at_step = watch.backwards
        self.bad_losses = watch.bad_losses
        if step.backwards:
            self.rules.usual_backwards = step.backwards
            step.uncleared = self.clearing.next_step()
        return step

    def _norms(self, gradients: list[Any], present: int, step: Step) -> list[Any]:
        """Scalars whose squares add up to that of the norm."""
        clipped = self.watch.take_norm(present)
        if clipped is not None:
            step.whole = True
            return [local(clipped)]
        whole = self.whole_norm or self.effective + 1 >= self.next_look
        norms, step.whole = self.norms.take(gradients, whole)
        step.apart = step.whole and not self.norms.few_are_all
        return norms

    def _judge(self, step: Step, norms: list[Any], extra: list[Any]) -> None:
        """The values have arrived."""
        if extra and extra[0] is not None:
            step.scaled, step.skipped = True, extra[0] != 0.0
            self.fused_skips += step.skipped
        if norms and None not in norms:
            step.norm = root(norms)
            if len(extra) > 1 and extra[1]:
                step.norm /= extra[1]
        self.whole_norm = step.norm is None or step.norm == 0.0 or not math.isfinite(step.norm)
        self.watch.judge_step(self, step)

    def skip(self) -> None:
        """The loss scaler did not call step()."""
        optimizer = self.optimizer()
        if optimizer is None:
            return
        self.steps += 1
        step = self._step(optimizer, 0, len(self.flat))
        step.skipped = step.scaled = True
        self.watch.take_norm(-1)
        self.watch.values.submit([], lambda values: self.watch.judge_step(self, step))

    def applied(self, optimizer: Any) -> None:
        """After the step: compare the parameters, at some steps."""
        if self.rates_now != self.rates_before:
            self._change_rates(self.rates_now)
        if self.largest_rate == 0.0:
            return
        self.applied_steps += 1
        effective = self.applied_steps - self.fused_skips
        if effective >= self.next_look:
            with self.torch.no_grad():
                self._compare(optimizer, effective)

    def _change_rates(self, rates: list[float | None]) -> None:
        self.rates_before = rates
        self.largest_rate = max([rate for rate in rates if rate is not None], default=1.0)
        if self.largest_rate == 0.0:
            return
        self.rates = [max(old, 1.0 if new is None else new) for old, new in zip(self.rates, rates)]
        if self.largest_rate > self.previous_rate:
            self.risen_at = self.applied_steps + 1
        self.previous_rate = self.largest_rate

    def _compare(self, optimizer: Any, effective: int) -> None:
        self.next_look = _next_look(effective)
        unreached = self.unreached
        if self.parameters.blocks:
            self._look(optimizer, effective, self.steps)
        if effective >= limit.NEVER_REACHED and unreached:
            self.watch.never_reached(self, sorted(unreached))
            self.unreached = set()

    def _compare_between(self, flat: list[Any]) -> None:
        """Whether what the last step changed is still changed before the next one."""

        def deliver(values: list[Any]) -> None:
            self.between += 1
            self.stays |= any(distance is None or distance != 0.0 for distance in values)

        distances = [block.distance(flat) for block in self.parameters.blocks.values()]
        self.watch.values.submit(distances, deliver)

    def _look(self, optimizer: Any, effective: int, step: int) -> None:
        flat = self.flat
        if not self.parameters.fit(flat):
            self._start(optimizer)
            return
        tiny = self.previous_rate <= look_rules.HALF_SMALLEST
        self.tiny_since = (self.tiny_since or effective) if tiny else 0
        initial = [_number(group.get("initial_lr")) or 0.0 for group in optimizer.param_groups]
        look = Look(
            self.index,
            step,
            effective,
            self.parameters.tracked,
            list(self.rates),
            peak=max([*initial, *self.rates]),
            rising=self.rising,
            adaptive=self.adaptive,
            compensated=self.compensated(optimizer),
            name=self.name,
            rate=self.previous_rate,
            tiny_since=self.tiny_since,
            undone=self.between >= limit.UNDONE and not self.stays and not self.watch.several,
        )

        def done() -> None:
            self.watch.judge_look(self, look_rules.judge(look))

        self.parameters.look(flat, self.watch.values.submit, done)

    def compensated(self, optimizer: Any) -> bool:
        """Whether 16-bit weights keep what rounding takes away."""
        return self.parameters.half and compensates(optimizer, self.flat)


def _next_look(effective: int) -> int:
    """The first step after `effective` at which parameters are compared."""
    later = (effective // limit.LOOK_EVERY + 1) * limit.LOOK_EVERY
    return min([look for look in limit.LOOKS if look > effective], default=later)


def _number(value: Any) -> float | None:
    """A learning rate as a float; None where reading it would wait for a device."""
    if type(value) is float:
        return value
    if isinstance(value, (int, float)):
        return float(value)
    if hasattr(value, "detach") and value.device.type == "cpu":
        return float(value)
    return None

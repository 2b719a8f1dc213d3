"""One optimizer: its steps, its gradients, its parameters."""

from __future__ import annotations

import math
import re
import weakref
from typing import TYPE_CHECKING, Any

from . import look_rules
from . import thresholds as limit
from .clearing import Clearing
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
COMPENSATES = re.compile(r"kahan|compens|shift|residual|master|stochastic", re.IGNORECASE)
"""Keys of state or groups that keep what 16-bit weights round away."""
COMPENSATING_MODULES = ("torchao", "optimi", "apex", "transformer_engine", "deepspeed")


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
        self._start(optimizer)

    def _start(self, optimizer: Any) -> None:
        """Compare with the parameters as they are now."""
        groups = [list(group["params"]) for group in optimizer.param_groups]
        flat = [p for group in groups for p in group]
        self.applied_steps = self.fused_skips = 0
        self.rates = [0.0] * len(groups)
        self.previous_rate, self.risen_at = 0.0, 0
        self._names: dict[int, str] | None = None
        self.unreached = {index for index, p in enumerate(flat) if p.requires_grad}
        self.norms = GradientNorms(self.torch, flat)
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
        flat = self.flat
        if len(flat) != self.parameters.count:
            self._start(optimizer)
        self.steps += 1
        self.stepped = True
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

        def deliver(values: list[Any]) -> None:
            self._judge(step, values[: len(norms)], values[len(norms) :])

        self.watch.values.submit(norms + extra, deliver)

    def _step(self, optimizer: Any, without: int, parameters: int) -> Step:
        watch = self.watch
        step = Step(self.index, self.steps, without=without, parameters=parameters)
        step.rates = [_number(group.get("lr")) for group in optimizer.param_groups]
        step.backwards = watch.backwards - self.backwards_at_step
        step.scaled = watch.scaling
        step.losses = watch.take_losses()
        self.backwards_at_step = watch.backwards
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
        whole = self.whole_norm or is_look(self.effective + 1)
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
        rates = [_number(group.get("lr")) for group in optimizer.param_groups]
        largest = max([rate for rate in rates if rate is not None], default=1.0)
        if largest == 0.0:
            return
        self.rates = [max(old, 1.0 if new is None else new) for old, new in zip(self.rates, rates)]
        self.applied_steps += 1
        if largest > self.previous_rate:
            self.risen_at = self.applied_steps
        self.previous_rate = largest
        effective = self.effective
        if is_look(effective) and self.parameters.blocks:
            self._look(optimizer, effective, self.steps)
        if effective == limit.NEVER_REACHED and self.unreached:
            self.watch.never_reached(self, sorted(self.unreached))

    def _look(self, optimizer: Any, effective: int, step: int) -> None:
        flat = self.flat
        if not self.parameters.fit(flat):
            self._start(optimizer)
            return
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
        )

        def done() -> None:
            self.watch.judge_look(self, look_rules.judge(look))

        self.parameters.look(flat, self.watch.values.submit, done)

    def compensated(self, optimizer: Any) -> bool:
        """Whether 16-bit weights keep what rounding takes away."""
        if not self.parameters.half:
            return False
        flat = self.flat
        module = type(optimizer).__module__.partition(".")[0]
        state: Any = next((optimizer.state[p] for p in flat if p in optimizer.state), {})
        keys = [*state, *(key for group in optimizer.param_groups for key in group)]
        return module in COMPENSATING_MODULES or any(COMPENSATES.search(str(k)) for k in keys)


def is_look(effective: int) -> bool:
    """Whether parameters are compared after this many steps."""
    return effective in limit.LOOKS or effective % limit.LOOK_EVERY == 0


def _number(value: Any) -> float | None:
    """A learning rate as a float; None where reading it would wait for a device."""
    if type(value) is float:
        return value
    if isinstance(value, (int, float)):
        return float(value)
    if hasattr(value, "detach") and value.device.type == "cpu":
        return float(value)
    return None

"""One optimizer: its steps, its gradients, its parameters."""

from __future__ import annotations

import math
import re
import weakref
from typing import TYPE_CHECKING, Any

from . import look_rules
from . import thresholds as limit
from .diagnosis import names_of
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
NORM_TENSORS, NORM_ELEMENTS = 48, 2**20
"""The gradients whose norm is taken at every step where the loop does not clip."""


class OptimizerWatch:
    """Watches one optimizer, which it does not keep alive."""

    def __init__(self, watch: Watch, optimizer: Any, index: int) -> None:
        self.watch = watch
        self.torch = watch.torch
        self.index = index
        self.name = type(optimizer).__name__
        self.adaptive = bool(ADAPTIVE.search(self.name))
        self.optimizer = weakref.ref(optimizer)
        self.rules = StepRules(index, watch.rules)
        self.steps = self.effective = 0
        self.backwards_at_step = 0
        self.rates: list[float] = []
        self.previous_rate, self.risen_at = 0.0, 0
        self.whole_norm = True
        self.fired = False
        self.unreached: set[int] = set()
        self.sample: Any = None
        self.version: Any = None
        self.cleared = True
        self._names: dict[int, str] = {}
        self.parameters = self._start(optimizer)

    def _start(self, optimizer: Any) -> Parameters:
        """Compare with the parameters as they are now."""
        groups = [list(group["params"]) for group in optimizer.param_groups]
        self.effective = 0
        self._names = {}
        self.rates = [0.0] * len(groups)
        flat = [p for group in groups for p in group]
        self.unreached = {index for index, p in enumerate(flat) if p.requires_grad}
        parameters = Parameters(self.torch, groups)
        parameters.classify(self.watch.values.submit)
        return parameters

    @property
    def flat(self) -> list[Any]:
        """The parameters, in the order of the groups; [] when the optimizer is gone."""
        optimizer = self.optimizer()
        groups = optimizer.param_groups if optimizer is not None else ()
        return [p for group in groups for p in group["params"]]

    @property
    def names(self) -> dict[int, str]:
        """Position -> name in the model, looked up when an alarm needs it."""
        if not self._names:
            self._names = names_of(self.torch, self.flat)
        return self._names

    def measure(self, optimizer: Any) -> None:
        """Read what belongs to this step, and judge it when the values are there."""
        flat = self.flat
        if len(flat) != self.parameters.count:
            self.parameters = self._start(optimizer)
        self.steps += 1
        self.fired = True
        gradients = [p.grad for p in flat]
        present = [gradient for gradient in gradients if gradient is not None]
        if self.unreached:
            self.unreached = {i for i in self.unreached if gradients[i] is None}
        step = self._step(optimizer, len(flat) - len(present), len(flat))
        self.watch.take_losses(step)
        norms, step.whole = self._norms(present)
        extra = [optimizer.found_inf] if _is_tensor(optimizer, "found_inf") else []
        extra += [optimizer.grad_scale] if extra and _is_tensor(optimizer, "grad_scale") else []
        step.scaled = step.scaled or bool(extra)
        self._find_sample(flat)

        def deliver(values: list[Any]) -> None:
            self._judge(step, values[: len(norms)], values[len(norms) :])

        self.watch.values.submit([*norms, *(local(value) for value in extra)], deliver)

    def _step(self, optimizer: Any, without: int, parameters: int) -> Step:
        step = Step(self.index, self.steps, without=without, parameters=parameters)
        step.rates = [_number(group.get("lr")) for group in optimizer.param_groups]
        step.backwards = self.watch.backwards - self.backwards_at_step
        self.backwards_at_step = self.watch.backwards
        step.scaled = self.watch.scaling
        step.uncleared = not self.cleared
        if step.backwards:
            self.rules.usual_backwards = step.backwards
            self.cleared = False
        return step

    def _norms(self, gradients: list[Any]) -> tuple[list[Any], bool]:
        """Norms whose squares add up to that of the gradients, and whether of all of them."""
        clipped = self.watch.take_norm(len(gradients))
        if clipped is not None:
            return [local(clipped)], True
        gradients = [g for g in map(local, gradients) if not g.is_sparse and g.numel()]
        if not gradients:
            return [], True
        look = self._is_look(self.effective + 1) or self.whole_norm
        chosen = gradients if look else _cheap(gradients)
        groups: dict[Any, list[Any]] = {}
        for gradient in chosen:
            groups.setdefault((gradient.device, gradient.dtype), []).append(gradient)
        norms = [self._norm(group) for group in groups.values()]
        return norms, len(chosen) == len(gradients)

    def _norm(self, gradients: list[Any]) -> Any:
        """The norm of gradients of one dtype; of 16 bits in fp32, or else the maximum."""
        torch = self.torch
        if gradients[0].dtype.itemsize > 2:
            norms = torch._foreach_norm(gradients, 2.0)
        else:
            try:
                norms = torch._foreach_norm(gradients, 2.0, dtype=torch.float32)
            except TypeError:
                norms = torch._foreach_norm(gradients, float("inf"))
        return torch.linalg.vector_norm(torch.stack(norms))

    def _judge(self, step: Step, norms: list[Any], extra: list[Any]) -> None:
        """The values have arrived."""
        if extra and extra[0] is not None:
            step.skipped = extra[0] != 0.0
        numbers = [norm for norm in norms if norm is not None]
        if numbers and len(numbers) == len(norms):
            step.norm = _root(numbers)
            if len(extra) > 1 and extra[1]:
                step.norm /= extra[1]
        self.whole_norm = step.norm is None or step.norm == 0.0 or not math.isfinite(step.norm)
        if step.skipped and self.effective:
            self.effective -= 1  # the fused kernel left the weights alone
        self.watch.judge_step(self, step)

    def skip(self) -> None:
        """The loss scaler did not call step()."""
        optimizer = self.optimizer()
        if optimizer is None:
            return
        self.steps += 1
        step = self._step(optimizer, 0, len(self.flat))
        step.skipped = step.scaled = True
        self.watch.take_losses(step)
        self.watch.take_norm(-1)
        self.watch.values.submit([], lambda values: self.watch.judge_step(self, step))

    def applied(self, optimizer: Any) -> None:
        """After the step: compare the parameters, at some steps."""
        rates = [_number(group.get("lr")) for group in optimizer.param_groups]
        known = [rate for rate in rates if rate is not None]
        if known and max(known) == 0.0:
            return
        self.rates = [max(old, 1.0 if new is None else new) for old, new in zip(self.rates, rates)]
        self.effective += 1
        rate = max(known, default=0.0)
        if rate > self.previous_rate:
            self.risen_at = self.effective
        self.previous_rate = rate
        if self._is_look(self.effective) and self.parameters.blocks:
            self._look(optimizer, self.effective, self.steps)
        if self.effective == limit.NEVER_REACHED and self.unreached:
            self.watch.never_reached(self, sorted(self.unreached))

    def _is_look(self, effective: int) -> bool:
        return effective in limit.LOOKS or effective % limit.LOOK_EVERY == 0

    def _look(self, optimizer: Any, effective: int, step: int) -> None:
        flat = self.flat
        if not self.parameters.fit(flat):
            self.parameters = self._start(optimizer)
            return
        initial = [_number(group.get("initial_lr")) or 0.0 for group in optimizer.param_groups]
        rates, name = list(self.rates), self.name
        rising = 1 < self.risen_at > effective - 3 and effective > 1
        compensated = self._compensated(optimizer, flat)

        def done() -> None:
            look = Look(
                self.index,
                step,
                effective,
                self.parameters.tracked,
                rates,
                max([*initial, *rates]),
                rising,
                self.adaptive,
                compensated,
                name,
            )
            self.watch.judge_look(self, look_rules.judge(look))

        self.parameters.look(flat, self.watch.values.submit, done)

    def _compensated(self, optimizer: Any, flat: list[Any]) -> bool:
        """Whether 16-bit weights keep what rounding takes away."""
        module = type(optimizer).__module__.partition(".")[0]
        state: Any = next((optimizer.state[p] for p in flat if p in optimizer.state), {})
        keys = [*state, *(key for group in optimizer.param_groups for key in group)]
        return module in COMPENSATING_MODULES or any(COMPENSATES.search(str(k)) for k in keys)

    def _find_sample(self, flat: list[Any]) -> None:
        """The parameter whose gradient shows whether gradients are cleared."""
        if self.sample is None or self.sample() is None:
            with_gradient = [p for p in flat if p.grad is not None]
            if with_gradient:
                smallest = min(with_gradient, key=lambda p: p.numel())
                self.sample = weakref.ref(smallest)

    def before_backward(self) -> None:
        """Notice whether the sampled gradient was cleared since the last backward or step."""
        if self.version is None or self.version != self._version():
            self.cleared = True

    def note_version(self) -> None:
        """Remember the sampled gradient, after a backward and after a step."""
        self.version = self._version()

    def _version(self) -> Any:
        parameter = self.sample() if self.sample is not None else None
        gradient = None if parameter is None else parameter.grad
        return None if gradient is None else (gradient.data_ptr(), gradient._version)


def _is_tensor(optimizer: Any, name: str) -> bool:
    return hasattr(getattr(optimizer, name, None), "detach")


def _number(value: Any) -> float | None:
    """A learning rate as a float; None where reading it would wait for a device."""
    if isinstance(value, (int, float)):
        return float(value)
    if hasattr(value, "detach") and value.device.type == "cpu":
        return float(value)
    return None


def _cheap(gradients: list[Any]) -> list[Any]:
    """The smallest gradients, of a bounded number and size, at least one."""
    chosen: list[Any] = []
    elements = 0
    for gradient in sorted(gradients, key=lambda g: g.numel())[:NORM_TENSORS]:
        elements += gradient.numel()
        if chosen and elements > NORM_ELEMENTS:
            break
        chosen.append(gradient)
    return chosen


def _root(norms: list[float]) -> float:
    """The square root of the sum of squares; NaN and Inf stay."""
    return math.sqrt(sum(norm * norm for norm in norms)) if len(norms) > 1 else norms[0]

"""A LightningModule that optimizes manually: its training_step calls backward() and the optimizers.

The doctor lets it do so, in place of the loop of a Trainer, and records the gradients with which
its optimizers step.
"""

from __future__ import annotations

import contextlib
import inspect
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set

import torch

from ..foreign import Foreign
from ..foreign.observing import plain
from .optimizers import dense

MOST_CALLS = 16
"""Calls of training_step in one step of the doctor, until each optimizer has stepped: some step in
every n-th batch only."""


class Stepped:
    """The optimizers of a training_step as one: it has stepped them when the doctor's loop does."""

    def __init__(self, parts: Sequence[Foreign], schedules: Sequence[Foreign]) -> None:
        self.parts, self.schedules = list(parts), list(schedules)
        self.norms: Dict[int, float] = {}
        """Id of a parameter -> the norm of its gradient at the last step of its optimizer."""
        self.missing: Set[int] = set()
        """Indices of the optimizers that did not step yet."""
        for index, each in enumerate(self.parts):
            each.step = self._noting(index, each.step)
            each.toggle_model = _toggled

    @property
    def param_groups(self) -> List[Dict[str, Any]]:
        return [group for each in self.parts for group in each.param_groups]

    def step(self) -> None:
        """The training_step did."""

    def state_dict(self) -> Dict[str, Any]:
        return {"parts": [each.state_dict() for each in self.parts]}

    def begin(self) -> None:
        self.norms.clear()
        self.missing = set(range(len(self.parts)))

    def of(self, weights: Dict[str, torch.Tensor]) -> Dict[str, Optional[float]]:
        return {name: self.norms.get(id(weight)) for name, weight in weights.items()}

    def _noting(self, index: int, step: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Foreign, **options: Foreign) -> Foreign:
            self.missing.discard(index)
            with torch._C.DisableTorchFunction():
                for weight in _weights(self.parts[index]):
                    if weight.grad is not None:
                        norm = plain(dense(weight.grad)).float().norm()
                        self.norms[id(weight)] = float(norm)
            return step(*arguments, **options)

        return noted


@contextlib.contextmanager
def _toggled(*arguments: Foreign, **options: Foreign) -> Iterator[None]:
    """toggle_model of Lightning's optimizers, for gradients of several processes."""
    yield


def named(parts: Sequence[Foreign], schedules: Sequence[Foreign]) -> Stepped:
    """The optimizers under a class that is called as they are: "Adam, SGD"."""
    name = ", ".join(type(each).__name__ for each in parts)
    made: Stepped = type(name, (Stepped,), {})(parts, schedules)
    return made


class Toggled:
    """Freezes the parameters of all optimizers but one, as toggle_optimizer does."""

    def __init__(self, optimizer: Stepped) -> None:
        self._optimizer = optimizer
        self._before: Dict[Any, bool] = {}

    def on(self, own: Foreign) -> None:
        for weight in _weights(self._optimizer):
            self._before.setdefault(weight, weight.requires_grad)
        kept = {id(weight) for weight in _weights(own)}
        self._set({w: trains and id(w) in kept for w, trains in self._before.items()})

    def off(self, own: Foreign) -> None:
        self._set(self._before)
        self._before.clear()

    def _set(self, values: Dict[Any, bool]) -> None:
        with torch._C.DisableTorchFunction():  # no operation of the user's code
            for weight, trains in values.items():
                weight.requires_grad_(trains)


def attach(module: Foreign, optimizer: Stepped) -> None:
    """Give the module the methods that its training_step uses, which need a running Trainer."""
    toggled = Toggled(optimizer)
    module.optimizers = lambda *arguments, **options: _one_or_all(optimizer.parts)
    module.lr_schedulers = lambda: _one_or_all(optimizer.schedules) if optimizer.schedules else None
    module.toggle_optimizer, module.untoggle_optimizer = toggled.on, toggled.off
    module.clip_gradients = _clip
    module.manual_backward = lambda loss, *arguments, **options: loss.backward(
        *arguments, **options
    )


def _clip(
    own: Foreign, gradient_clip_val: Foreign = None, gradient_clip_algorithm: Foreign = None
) -> None:
    if gradient_clip_val and gradient_clip_algorithm == "value":
        torch.nn.utils.clip_grad_value_(_weights(own), gradient_clip_val)
    elif gradient_clip_val:
        torch.nn.utils.clip_grad_norm_(_weights(own), gradient_clip_val)


def _weights(optimizer: Foreign) -> List[Any]:
    return [weight for group in optimizer.param_groups for weight in group["params"]]


def _one_or_all(values: List[Foreign]) -> Foreign:
    return values[0] if len(values) == 1 else values


def loss_of(optimizer: Stepped) -> Callable[[Foreign, Foreign], torch.Tensor]:
    """The training_step as a loss: the sum of what it called backward() on, without a graph."""
    calls = 0

    def loss(module: Foreign, batch: Foreign) -> torch.Tensor:
        nonlocal calls
        optimizer.begin()
        names = list(inspect.signature(module.training_step).parameters)
        for _ in range(MOST_CALLS):
            with _losses_noted() as losses:
                module.training_step(*(batch, calls)[: max(1, len(names))])
            calls += 1
            if not optimizer.missing:
                break
        if not losses:
            raise TypeError("training_step called backward() on no loss, and "
                            "automatic_optimization is False")  # fmt: skip
        return torch.tensor(sum(losses), dtype=torch.float32, requires_grad=True)

    loss.doctor_source = "training_step"  # type: ignore[attr-defined]
    return loss


@contextlib.contextmanager
def _losses_noted() -> Iterator[List[float]]:
    """The losses that backward() is called on meanwhile."""
    original: Any = torch.Tensor.backward
    losses: List[float] = []

    def backward(loss: Foreign, *arguments: Foreign, **options: Foreign) -> None:
        with torch._C.DisableTorchFunction():  # for the doctor, the graph does not end here
            losses.append(float(plain(loss).float().sum()))
            original(loss, *arguments, **options)

    torch.Tensor.backward = backward  # type: ignore[method-assign,assignment]
    try:
        yield losses
    finally:
        torch.Tensor.backward = original  # type: ignore[method-assign]

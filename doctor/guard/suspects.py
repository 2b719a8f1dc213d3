"""After a step whose gradients are not finite: whether weights and optimizer state are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Callable, Iterable, Iterator, Tuple

from .foreign import Foreign
from .parameters import local
from .records import Alarm, Step
from .step_alarms import not_known_to_spoil, spoiled

if TYPE_CHECKING:
    from .optimizer_watch import OptimizerWatch

_Tensor = Tuple[int, bool, Foreign]
"""Position of the parameter, whether it is the weight itself, and the tensor."""
PART = 2000
"""Tensors whose sizes are read in one go: one copy from a GPU."""


def examine(
    watch: OptimizerWatch, step: Step, add: Callable[[Alarm, OptimizerWatch], None]
) -> None:
    """Read the largest size of each tensor, and judge when all have arrived."""
    torch = watch.torch
    tensors = list(_tensors(watch))
    sizes = _Sizes(len(tensors))

    def judge() -> None:
        if sizes.weights or sizes.state:
            add(spoiled(step, sorted(sizes.weights), sorted(sizes.state), watch.index), watch)
        elif sizes.lost or not tensors:  # the optimizer is gone before its last step was read
            add(not_known_to_spoil(step, watch.index), watch)

    for begin in range(0, len(tensors), PART):
        part = tensors[begin : begin + PART]

        def deliver(values: list[Foreign], part: list[_Tensor] = part) -> None:
            sizes.take(part, values)
            if not sizes.missing:
                judge()

        with torch.no_grad():
            norms = [torch.linalg.vector_norm(tensor, math.inf) for _, _, tensor in part]
        watch.readings.values.submit(norms, deliver)
    if not tensors:
        judge()


class _Sizes:
    """The parameters whose weight or state is not finite, as the sizes of `missing` tensors arrive.

    `lost`: some never did.
    """

    def __init__(self, missing: int) -> None:
        self.missing = missing
        self.weights: set[int] = set()
        self.state: set[int] = set()
        self.lost = False

    def take(self, part: list[_Tensor], values: list[Foreign]) -> None:
        self.missing -= len(part)
        for (index, is_weight, _), size in zip(part, values):
            if size is None:
                self.lost = True
            elif not math.isfinite(size):
                (self.weights if is_weight else self.state).add(index)


def _tensors(watch: OptimizerWatch) -> Iterator[_Tensor]:
    """The weights and what the optimizer keeps for them."""
    optimizer = watch.optimizer()
    for index, parameter in enumerate(watch.flat):
        state = optimizer.state.get(parameter, {}) if optimizer is not None else {}
        values = [parameter, *(state.values() if isinstance(state, dict) else ())]
        for place, value in enumerate(values):
            if not isinstance(value, watch.torch.Tensor) or (place and not value.dim()):
                continue
            tensor = local(value._values() if value.is_sparse else value)
            if (tensor.is_floating_point() or tensor.is_complex()) and tensor.numel():
                yield index, place == 0, tensor


def name_why_lost(alarm: Alarm, watch: OptimizerWatch, every: Iterable[OptimizerWatch]) -> None:
    """Gradients do not reach these parameters: they are frozen, or copies of them are trained."""
    flat = watch.flat
    if flat and not any(p.requires_grad for p in flat):
        alarm.cause = "frozen"
        alarm.text += ": all of them have requires_grad=False"
        return
    shapes, own = [p.shape for p in flat], {id(p) for p in flat}
    for other in every:
        parameters = other.flat
        if [p.shape for p in parameters] == shapes and own.isdisjoint(map(id, parameters)):
            alarm.cause = "copy"
            alarm.text += f"; {other.name} steps other parameters of the same shapes, a copy"
            return

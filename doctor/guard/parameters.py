"""The parameters of one optimizer, compared with their start bit for bit."""

from __future__ import annotations

import weakref
from types import ModuleType
from typing import TYPE_CHECKING, Callable, List

from .foreign import Foreign
from .records import Tracked

if TYPE_CHECKING:
    from torch import Tensor

SAMPLES = 64
"""Elements that are compared of each matrix, evenly spaced."""
WHOLE = 16384
"""Elements up to which a parameter of one dimension is compared as a whole."""
MOST = 512
"""Parameters that are compared, vectors first."""

Submit = Callable[[List[Foreign], Callable[[List[Foreign]], None]], None]


DEVICES = ("cpu", "cuda", "mps")
"""Whose values can be read."""


def local(tensor: Tensor) -> Foreign:
    """The part of a tensor that is in this process: no collectives, no graph."""
    return part(tensor).detach()


def part(tensor: Tensor) -> Foreign:
    """The same, where no graph is recorded anyway."""
    return getattr(tensor, "_local_tensor", tensor)


def is_vector(parameter: Tensor) -> bool:
    """Whether it has one dimension, as norms and biases do; FSDP's flat parameters do not count."""
    return parameter.dim() <= 1 and type(parameter).__name__ != "FlatParameter"


def view(torch: ModuleType, tensor: Tensor, whole: bool) -> Foreign:
    """Elements of a tensor, without a copy."""
    if tensor.is_sparse:
        tensor = tensor._values()
    if whole:
        return tensor
    elements = tensor.numel()
    count = min(SAMPLES, elements)
    return torch.as_strided(tensor, (count,), (max(1, elements // count) if count else 1,))


class Block:
    """Parameters of one device and dtype."""

    def __init__(self, torch: ModuleType) -> None:
        self.torch = torch
        self.tracked: list[Tracked] = []
        self.whole: list[bool] = []
        self.saved: list[Foreign] = []

    def add(self, tracked: Tracked, tensor: Tensor, whole: bool) -> None:
        """Remember the start of a parameter."""
        self.tracked.append(tracked)
        self.whole.append(whole)
        self.saved.append(view(self.torch, tensor, whole).clone())

    def norms(self, tensors: list[Tensor]) -> Foreign:
        """The largest absolute value of each tensor, as one vector."""
        return self.torch.stack(self.torch._foreach_norm(tensors, float("inf")))

    def starts(self) -> list[Foreign]:
        """The distances from 1.0 and from 0.0."""
        return [self.norms(self.torch._foreach_sub(self.saved, 1.0)), self.norms(self.saved)]

    def classify(self, values: list[Foreign]) -> None:
        """Fill in `start` from the values of `starts`."""
        if values[0] is None:
            return
        for tracked, ones, zeros in zip(self.tracked, *values):
            tracked.start = "ones" if ones == 0.0 else "zeros" if zeros == 0.0 else "other"

    def read(self, parameters: list[Tensor]) -> tuple[list[Foreign], list[Tracked], list[Tracked]]:
        """Distances of parameters from their start, and sizes of gradients, as vectors.

        Also whose they are, for `update`: those that have not moved yet, and those without a
        gradient so far that have one now. To be called without recording a graph.
        """
        still, now, saved, reached, gradients = [], [], [], [], []
        for tracked, whole, start in zip(self.tracked, self.whole, self.saved):
            parameter = parameters[tracked.index]
            if not tracked.moved:
                still.append(tracked)
                now.append(view(self.torch, part(parameter), whole))
                saved.append(start)
            if not tracked.gradient and parameter.grad is not None:
                gradient = view(self.torch, part(parameter.grad), whole)
                if gradient.numel():
                    reached.append(tracked)
                    gradients.append(gradient)
        vectors = [self.norms(self.torch._foreach_sub(now, saved))] if still else []
        if reached:
            vectors.append(self._gradient_norms(gradients))
        return vectors, still, reached

    def _gradient_norms(self, gradients: list[Tensor]) -> Foreign:
        if len({gradient.dtype for gradient in gradients}) == 1:
            return self.norms(gradients)
        return self.norms([gradient.float() for gradient in gradients])

    def distance(self, parameters: list[Tensor]) -> Foreign:
        """The largest distance of any parameter from its start, as a scalar."""
        now = [
            view(self.torch, part(parameters[tracked.index]), whole)
            for tracked, whole in zip(self.tracked, self.whole)
        ]
        return self.norms(self.torch._foreach_sub(now, self.saved)).max()

    @staticmethod
    def update(values: list[Foreign], still: list[Tracked], reached: list[Tracked]) -> None:
        """Fill in `moved` and `gradient`; NaN has moved."""
        if None in values:
            return
        for tracked, distance in zip(still, values[0] if still else ()):
            tracked.moved = tracked.moved or distance != 0.0
        for tracked, size in zip(reached, values[-1] if reached else ()):
            tracked.gradient = tracked.gradient or size != 0.0


class Parameters:
    """All blocks of one optimizer."""

    def __init__(self, torch: ModuleType, groups: list[list[Tensor]]) -> None:
        self.torch = torch
        self.blocks: dict[tuple[Foreign, Foreign], Block] = {}
        self.count = sum(map(len, groups))
        first = next((p for group in groups for p in group), None)
        self.first: Callable[[], Foreign] = (
            weakref.ref(first) if first is not None else lambda: None
        )
        self.gradients_read = False
        """Whether a look has read gradients."""
        self._add(groups)
        self.half = any(tracked.half for tracked in self.tracked)

    def _add(self, groups: list[list[Tensor]]) -> None:
        flat = [(group, p) for group, parameters in enumerate(groups) for p in parameters]
        candidates = [
            (index, group, p)
            for index, (group, p) in enumerate(flat)
            if p.requires_grad and p.is_floating_point() and local(p).numel()
        ]
        candidates = [c for c in candidates if c[2].device.type in ("cpu", "cuda", "mps")]
        if len(candidates) > MOST:
            candidates.sort(key=lambda candidate: not is_vector(candidate[2]))
            step = len(candidates) / MOST
            candidates = [candidates[int(k * step)] for k in range(MOST)]
        for index, group, parameter in candidates:
            tensor = local(parameter)
            whole = is_vector(parameter) and tensor.numel() <= WHOLE
            count = tensor.numel() if whole else min(SAMPLES, tensor.numel())
            dtype = str(tensor.dtype).replace("torch.", "")
            tracked = Tracked(index, group, dtype, count, vector=whole)
            key = (tensor.device, tensor.dtype)
            self.blocks.setdefault(key, Block(self.torch)).add(tracked, tensor, whole)

    @property
    def tracked(self) -> list[Tracked]:
        """Every parameter that is compared."""
        return [tracked for block in self.blocks.values() for tracked in block.tracked]

    def classify(self, submit: Submit) -> None:
        """Find those that start at 1.0 or 0.0."""
        for block in self.blocks.values():
            submit(block.starts(), block.classify)

    def look(self, parameters: list[Tensor], submit: Submit, done: Callable[[], None]) -> None:
        """Compare with the start, then call `done`."""
        blocks = list(self.blocks.values())
        read: list[bool] = []
        for position, block in enumerate(blocks):
            vectors, still, reached = block.read(parameters)

            def deliver(
                values: list[Foreign],
                still: list[Tracked] = still,
                reached: list[Tracked] = reached,
                last: bool = position == len(blocks) - 1,
            ) -> None:
                Block.update(values, still, reached)
                read.append(bool(reached) and None not in values)
                if last:
                    self.gradients_read |= any(read)
                    done()

            submit(vectors, deliver)

    def fit(self, parameters: list[Tensor]) -> bool:
        """Whether the parameters still have the devices and shapes of the start."""
        for block in self.blocks.values():
            for tracked, whole, saved in zip(block.tracked, block.whole, block.saved):
                parameter = part(parameters[tracked.index])
                if parameter.device != saved.device or parameter.numel() < saved.numel():
                    return False
                if whole and parameter.shape != saved.shape:
                    return False
        return True

"""The norm of an optimizer's gradients: of a few at every step, of all at some."""

from __future__ import annotations

import math
from types import ModuleType
from typing import TYPE_CHECKING

from .foreign import Foreign
from .parameters import local

if TYPE_CHECKING:
    from torch import Tensor

TENSORS, ELEMENTS = 16, 2**20
"""The gradients whose norm is taken at every step where the loop does not clip."""
COPIED = 2**16
"""Elements up to which they are copied into one tensor on a CPU: three operations for all."""


def flatten(torch: ModuleType) -> Foreign:
    """torch's function that copies a list of tensors into one; None where there is none."""
    return getattr(getattr(torch._C, "_nn", None), "flatten_dense_tensors", None)


class GradientNorms:
    """Norms of the gradients of a list of parameters."""

    def __init__(self, torch: ModuleType, groups: list[list[Tensor]]) -> None:
        self.torch = torch
        parameters = [p for group in groups for p in group]
        self._local = any(hasattr(p, "_local_tensor") for p in parameters)
        sizes = sorted((local(p).numel(), i) for i, p in enumerate(parameters))
        chosen: list[int] = []
        elements = 0
        for size, position in [pair for pair in sizes if pair[0]][:TENSORS]:
            if chosen and elements + size > ELEMENTS:
                break
            elements += size
            chosen.append(position)
        self._all = _by_kind(parameters, range(len(parameters)))
        self._few = _by_kind(parameters, chosen)
        self.copied: list[tuple[int, int]] = []
        if flatten(torch) and not self._local and len(self._few) == 1:
            places = [(g, i) for g, group in enumerate(groups) for i in range(len(group))]
            first = parameters[chosen[0]]
            if first.is_cuda or (first.is_cpu and elements <= COPIED):
                self.copied = [places[position] for position in chosen]
        self.few_are_all = len(chosen) == sum(size > 0 for size, _ in sizes)

    def take(self, gradients: list[Tensor], whole: bool) -> tuple[list[Foreign], bool]:
        """Scalars whose squares add up to that of the norm, and whether all gradients are in it.

        `gradients` are those of the parameters, None where there is none.
        """
        whole = whole or self.few_are_all
        scalars = self._of(gradients, self._all if whole else self._few)
        if not scalars and not whole:
            return self._of(gradients, self._all), True
        return scalars, whole

    def _of(self, gradients: list[Tensor], groups: dict[Foreign, list[int]]) -> list[Foreign]:
        scalars = []
        for positions in groups.values():
            chosen = [gradients[i] for i in positions if gradients[i] is not None]
            if self._local:
                chosen = [local(gradient) for gradient in chosen]
            chosen = [g._values() if g.is_sparse else g for g in chosen]
            chosen = [g for g in chosen if g.numel()]
            if chosen:
                scalars.append(self._norm(chosen))
        return scalars

    def _norm(self, gradients: list[Tensor]) -> Foreign:
        """The norm of gradients of one dtype; of 16 bits in fp32, or else the maximum."""
        torch = self.torch
        if gradients[0].dtype not in (torch.float16, torch.bfloat16):
            norms = torch._foreach_norm(gradients, 2.0)
        else:
            try:
                norms = torch._foreach_norm(gradients, 2.0, dtype=torch.float32)
            except TypeError:
                norms = torch._foreach_norm(gradients, float("inf"))
        return torch.stack(norms).norm() if len(norms) > 1 else norms[0]


def _by_kind(parameters: list[Tensor], positions: Foreign) -> dict[Foreign, list[int]]:
    groups: dict[Foreign, list[int]] = {}
    for i in positions:
        groups.setdefault((parameters[i].device, parameters[i].dtype), []).append(i)
    return groups


def root(norms: list[float]) -> float:
    """The square root of the sum of squares; NaN and Inf stay."""
    return math.sqrt(sum(norm * norm for norm in norms)) if len(norms) > 1 else norms[0]

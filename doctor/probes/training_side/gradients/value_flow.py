"""Which values of a forward pass reach the loss, with or without a graph.

An end of a path whose values never reach the loss, as an accuracy does not, is no reason for an
absent gradient.
"""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, Iterable, List, Tuple

import torch

from ..foreign import Foreign
from ..values.value_origins import tensors

Key = Tuple[Any, ...]
"""A gradient_zeros.Key."""
NOTHING: FrozenSet[Key] = frozenset()


class Flow:
    """The ends of paths that each value was computed from."""

    def __init__(self) -> None:
        self._ends: Dict[int, FrozenSet[Key]] = {}
        self._held: List[torch.Tensor] = []
        """Tensors that are kept, so that no other gets the same id."""

    def pass_on(self, name: str, inputs: Tuple[Any, Any], results: Iterable[torch.Tensor]) -> None:
        """The results of a function, and what it changes in place, come from its inputs."""
        ends = NOTHING.union(*(self.of(each) for each in tensors(inputs)))
        if ends:
            changed = [inputs[0][0]] if name == "__setitem__" else []
            self.add(ends, [*results, *changed])

    def add(self, ends: FrozenSet[Key], values: Iterable[Any]) -> None:
        for each in values:
            if isinstance(each, torch.Tensor):
                self._ends[id(each)] = self.of(each) | ends
                self._held.append(each)

    def of(self, value: Foreign) -> FrozenSet[Key]:
        return self._ends.get(id(value), NOTHING)

"""Whether a loader writes each batch into the memory of the one before."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import torch

from ..foreign import Foreign, containers
from .documents import host
from .relations import relation

LOOKED, MOST_VALUES = 4, 65_536
"""Batches, and values of each field of the first one."""


class Overwritten:
    """The values of the first batch, and whether they change while others are read."""

    def __init__(self) -> None:
        self._first: Foreign = None
        self._values: Dict[str, torch.Tensor] = {}
        self._read = 0
        self._changed = ""

    def add(self, batch: Foreign) -> None:
        """Behind what else is done with the batch."""
        self._read += 1
        if self._read == 1:
            self._first, self._values = batch, values_of(batch)
        elif self._read <= LOOKED and batch is not self._first:
            now = values_of(self._first)
            changed = [n for n, each in self._values.items() if differs(now.get(n), each)]
            self._changed = self._changed or "".join(changed[:1])
        if self._read > LOOKED:
            self._first = None

    def records(self) -> List[Dict[str, Any]]:
        return [relation("batch overwritten", 1, 1, (self._changed,))] if self._changed else []


def values_of(batch: Foreign) -> Dict[str, torch.Tensor]:
    named = containers.tensors(batch).items()
    return {name: host(each).flatten()[:MOST_VALUES].clone() for name, each in named}


def differs(one: Optional[torch.Tensor], other: torch.Tensor) -> bool:
    """NaN is equal to itself."""
    if one is None or one.shape != other.shape:
        return True
    return bool(((one != other) & ~((one != one) & (other != other))).any())

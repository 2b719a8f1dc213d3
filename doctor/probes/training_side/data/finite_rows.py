"""Rows of a dataset that hold NaN or Inf, beyond those of the batches that were read."""

from __future__ import annotations

from typing import Any, Dict, List

import torch

from ..foreign import Foreign, containers, observing
from .documents import host
from .relations import Relations
from .targets import Source

MOST_VALUES = 65_536


class FiniteRows:
    """Counts over rows that nothing changes before the model gets them."""

    def __init__(self, source: Source) -> None:
        collate = observing.attribute(source.items, "collate_fn")
        self._plain = collate is torch.utils.data.default_collate
        self._relations = Relations()

    def add(self, row: Foreign, number: int) -> None:
        for name, each in containers.tensors(row, "row").items() if self._plain else ():
            if each.is_floating_point() and each.numel() <= MOST_VALUES:
                bad = not bool(torch.isfinite(host(each)).all())
                self._relations.count("row not finite", bad, number, name)

    def records(self) -> List[Dict[str, Any]]:
        return self._relations.records()

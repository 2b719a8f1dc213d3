"""Targets that are the padding of the model's own table: a real item has its number."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import torch

from .relations import Relations

LEAST = 32
"""Classes below which a table may have as many entries by chance. Our own number."""


class PaddingTargets:
    """Counts over steps; `records` has the targets that are padding."""

    def __init__(self, module: torch.nn.Module) -> None:
        tables = [each for each in module.modules() if isinstance(each, torch.nn.Embedding)]
        self._padding: Dict[int, Optional[int]] = {e.num_embeddings: e.padding_idx for e in tables}
        """Entries of a table, and its padding."""
        self._relations = Relations()
        self._rows = 0

    def add(
        self, named: Dict[str, torch.Tensor], target: torch.Tensor, classes: int, ignored: int
    ) -> None:
        """One target for each row, as it is in the batch; within a sequence it may be padding."""
        padding = self._padding.get(classes)
        name = next((n for n, each in named.items() if is_same(each, target)), None)
        if padding is None or padding == ignored or name is None or classes < LEAST:
            return
        for number, each in enumerate(target.tolist()):
            self._relations.count("padding is target", each == padding, self._rows + number, name)
        self._rows += len(target)

    def records(self) -> List[Dict[str, Any]]:
        return self._relations.records()


def is_same(one: torch.Tensor, target: torch.Tensor) -> bool:
    return one.dim() == 1 and one.shape == target.shape and bool((one == target).all())

"""Labels that are padded on the other side than their tokens."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import torch

from .documents import Tokens
from .relations import Relations

LEAST_LABELS = 4
"""Trained labels of a row that are compared. Our own number."""


class LabelSides:
    """Counts over rows that have padding; `records` has them."""

    def __init__(self) -> None:
        self._relations = Relations()

    def add(self, tokens: Tokens, first_row: int) -> None:
        """A batch of tokens of B x T."""
        if tokens.labels is None or tokens.mask is None or tokens.mask.dim() != 2:
            return
        for number, (ids, labels, mask) in enumerate(zip(tokens.ids, tokens.labels, tokens.mask)):
            moved = is_moved(ids, labels, mask)
            if moved is not None:
                self._relations.count("labels of another side", moved, first_row + number)

    def records(self) -> List[Dict[str, Any]]:
        return self._relations.records()


def is_moved(ids: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor) -> Optional[bool]:
    """Whether labels are the tokens of their row once all move by its padding, and not before; None
    of a row without padding at one side alone, or with few labels."""
    used = torch.nonzero(mask != 0)[:, 0]
    padding = len(mask) - len(used)
    if not padding or len(used) <= LEAST_LABELS or int(used[-1] - used[0]) != len(used) - 1:
        return None
    if 0 < int(used[0]) < padding or int((labels >= 0).sum()) < LEAST_LABELS:
        return None
    other = labels.roll(padding if int(used[0]) else -padding)
    return not _are_tokens(ids, labels) and _are_tokens(ids, other)


def _are_tokens(ids: torch.Tensor, labels: torch.Tensor) -> bool:
    trained = labels >= 0
    return torch.equal(labels[trained], ids[trained])

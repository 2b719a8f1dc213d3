"""Pairs: chosen and rejected answers, or what a query shall find and not find."""

from __future__ import annotations

import hashlib
from typing import Any, Dict, List, Optional

import torch

from ..foreign import Foreign, containers
from .row_contents import feed

MOST_ROWS = 5
FORMS = ("%s", "%s_input_ids", "%s_ids", "%s_labels", "input_ids_%s", "ids_%s", "%s_text",
         "text_%s")  # fmt: skip
CHOSEN = tuple(form % side for side in ("chosen", "preferred", "positive") for form in FORMS)
REJECTED = tuple(form % side for side in ("rejected", "dispreferred", "negative") for form in FORMS)
KINDS = ("score", "rating", "reward", "avg_rating", "votes", "quality", "helpfulness",
         "overall_score", "upvotes")  # fmt: skip
SCORES = tuple(f % k for k in KINDS for f in ("%s_chosen", "chosen_%s", "chosen-%s"))
REJECTED_SCORES = tuple(f % k for k in KINDS for f in ("%s_rejected", "rejected_%s", "rejected-%s"))


class Pairs:
    """Counts over rows or batches; `record` has them."""

    def __init__(self) -> None:
        self.pairs = self.equal = self.scored = self.swapped = 0
        self.rows: List[int] = []

    def add(self, batch: Foreign, first_row: int) -> None:
        """Count the pairs of a batch, or of a row as a batch of one."""
        if not containers.is_mapping(batch):
            return
        chosen, rejected = _first(batch, CHOSEN), _first(batch, REJECTED)
        if chosen is None or rejected is None:
            return
        ours, others = _parts(chosen), _parts(rejected)
        for number, (one, other) in enumerate(zip(ours, others)):
            self.pairs += 1
            if digest(one) == digest(other):
                self.equal += 1
                self.rows += [first_row + number] if len(self.rows) < MOST_ROWS else []
        high, low = _numbers(_first(batch, SCORES)), _numbers(_first(batch, REJECTED_SCORES))
        for one, other in zip(high, low):
            self.scored += 1
            self.swapped += one < other

    def record(self) -> Optional[Dict[str, Any]]:
        if not self.pairs:
            return None
        return {
            "type": "Pairs",
            "pairs": self.pairs,
            "equal": self.equal,
            "rows": self.rows,
            "scored": self.scored,
            "swapped": self.swapped,
        }


def _first(batch: Foreign, names: Any) -> Foreign:
    return next((batch[name] for name in names if name in batch), None)


def _parts(value: Foreign) -> List[Foreign]:
    """The rows of a column of a batch; the text or the chat of a row is one."""
    if isinstance(value, torch.Tensor):
        return list(value)
    return [value]


def _numbers(value: Foreign) -> List[float]:
    if isinstance(value, torch.Tensor):
        return [float(each) for each in value.reshape(-1)]
    if isinstance(value, (int, float)):
        return [float(value)]
    return [float(each) for each in value] if isinstance(value, list) else []


def digest(value: Foreign) -> bytes:
    made = hashlib.blake2b(digest_size=16)
    feed(made, value)
    return made.digest()

"""Targets of a decoder that are the encoder's own input: the wrong column was tokenized."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional

import torch

from ..foreign import Foreign, observing
from .documents import Tokens, host, named_tensors
from .relations import relation
from .views import LABELS

LEAST, BEGINNING = 8, 6
"""Tokens of a target, and those at its beginning by which it is found in the input. Our own
numbers."""
MOST = 0.9
"""Share of the rows, as corrections of texts leave many of them as they are. Our own number."""
SPECIALS = 2
"""Tokens at the end of a row that may be the tokenizer's."""


class Copy(NamedTuple):
    """A row whose target is a part of its input."""

    row: int
    begins: int
    """Where it does in the input; a task's prefix is the same in all rows."""
    length: int
    at_end: bool
    """It goes to the end of the input."""


class Copies:
    """Rows of inputs and targets; `records` has the copies."""

    def __init__(self, module: Foreign) -> None:
        config = observing.attribute(module, "config")
        self._decodes = bool(observing.attribute(config, "is_encoder_decoder", False))
        self._rows = self._longest = 0
        self._copies: List[Copy] = []

    def add(self, batch: Foreign, tokens: Optional[Tokens], first_row: int) -> None:
        named = named_tensors(batch)
        decodes = self._decodes or "decoder_input_ids" in named
        labels = next((named[name] for name in LABELS if name in named), None)
        if tokens is None or labels is None or not (decodes or tokens.foreign_labels):
            return
        if labels.dim() != 2 or labels.is_floating_point() or len(labels) != len(tokens.ids):
            return
        for number, row in enumerate(host(labels)):
            mask = tokens.mask[number] if tokens.mask is not None else None
            ids = tokens.ids[number] if mask is None else tokens.ids[number][mask != 0]
            target = row[row >= 0]
            if len(target) >= LEAST:
                self._rows += 1
                self._longest = max(self._longest, len(target))
                begins = place_of(target[:-1], ids)
                if begins is not None:
                    at_end = begins + len(target) >= len(ids) - SPECIALS
                    self._copies.append(Copy(first_row + number, begins, len(target), at_end))

    def records(self) -> List[Dict[str, Any]]:
        whole = [each for each in self._copies if each.at_end or each.length == self._longest]
        alike = {each.begins for each in whole}
        if not whole or len(alike) > 1 or len(whole) < MOST * self._rows:
            return []
        rows = [each.row for each in whole]
        return [relation("target is input", len(rows), self._rows, (), rows)]


def place_of(target: torch.Tensor, ids: torch.Tensor) -> Optional[int]:
    """Where the tokens stand in the input, one behind the other."""
    if len(ids) < len(target):
        return None
    windows = ids.unfold(0, BEGINNING, 1)
    starts = torch.nonzero((windows == target[:BEGINNING]).all(1))[:, 0].tolist()
    return next((n for n in starts if torch.equal(ids[n : n + len(target)], target)), None)

"""Masks of attention as a step hands them over, against the padding of the batch: where they are
the wrong way round, attention sees padding alone."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import torch

from ..foreign import Arguments, Options
from .documents import host
from .places import SEVERAL, filler_of
from .relations import Relations

MASKS: Dict[str, Tuple[str, int]] = {
    "multi_head_attention_forward": ("key_padding_mask", 14),
    "scaled_dot_product_attention": ("attn_mask", 3),
}
"""Functions, and their parameter with its place."""
FORBIDDEN = -1e4
"""What is added to the scores of keys that are left out, or less."""


class Attended:
    """Masks of some steps; `records` has those that leave out the text."""

    def __init__(self) -> None:
        self._relations = Relations()
        self._row = 0

    def add(self, named: Dict[str, torch.Tensor], masks: List[torch.Tensor]) -> None:
        """The fields of a batch, and the keys that each call leaves out: rows x keys."""
        for left_out in masks[:1]:
            found = [padding_of(each, left_out) for each in named.values()]
            padding = next((each for each in found if each is not None), left_out[:0])
            for number, row in enumerate(padding):
                if bool(row.any()) and not bool(row.all()):
                    turned = torch.equal(left_out[number], ~row)
                    self._relations.count("attention on padding", turned, self._row + number)
            self._row += len(left_out)

    def records(self) -> List[Dict[str, Any]]:
        return self._relations.records()


def left_out_by(name: str, arguments: Arguments, options: Options) -> Optional[torch.Tensor]:
    """Rows x keys, true where no query sees the key; None of a call without such a mask."""
    parameter, place = MASKS[name]
    mask = options.get(parameter, arguments[place] if len(arguments) > place else None)
    if not isinstance(mask, torch.Tensor):
        return None
    plain = host(mask)
    whole = plain.dtype == torch.bool
    if parameter == "attn_mask":
        if plain.dim() != 4 or plain.shape[0] < 2:
            return None
        hidden = ~plain if whole else plain <= FORBIDDEN
        return hidden.all(1).all(1)
    return plain if whole else plain <= FORBIDDEN


def padding_of(field: torch.Tensor, left_out: torch.Tensor) -> Optional[torch.Tensor]:
    """Where the rows of a field end in what they are padded with; None where they are not padded to
    several lengths, or the field is of another shape."""
    if field.is_floating_point() or field.dtype == torch.bool or field.shape != left_out.shape:
        return None
    if int(field.max()) < 2:
        return None  # a mask, which may end with the text
    same = (field == filler_of(field)).flip(1).long().cumprod(1).flip(1).bool()
    lengths = torch.unique((~same).sum(1))
    return same if len(lengths) >= SEVERAL and bool(same.any()) else None

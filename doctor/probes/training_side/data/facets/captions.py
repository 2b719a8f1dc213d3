"""Images with a text each, and no target beside them: the words of the text are what the image
should tell."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import torch

from . import features, row_pairs
from .tables import Table

WORDS = 32
OFTEN = 0.08
"""Tokens that are asked for, and the share of the texts that have, or lack, one of them at least.
Our own number."""


def side_of(name: str, table: Optional[Table]) -> Optional[row_pairs.Side]:
    """The split as a learner of the texts' tokens sees it; None where there are other targets."""
    if table is None or table.target is not None:
        return None
    kinds = {field: features.kind_of(each) for field, each in table.inputs.items()}
    images = [field for field, kind in kinds.items() if kind == "image"]
    texts = [field for field, kind in kinds.items() if kind == "tokens"]
    if len(images) != 1 or len(texts) != 1:
        return None
    words = words_of(table.inputs[texts[0]])
    if words is None:
        return None
    inputs = {images[0]: table.inputs[images[0]]}
    return row_pairs.side_of(name, table._replace(inputs=inputs, target=words))


def words_of(ids: torch.Tensor) -> Optional[torch.Tensor]:
    """Rows x tokens: which of the tokens that tell most texts apart each text has."""
    has: Dict[int, torch.Tensor] = {}
    for token in torch.unique(ids).tolist()[: 8 * 4096]:
        rows = (ids == token).any(1)
        if OFTEN < float(rows.float().mean()) < 1 - OFTEN:
            has[token] = rows
    apart = sorted(has, key=lambda token: abs(float(has[token].float().mean()) - 0.5))
    return torch.stack([has[token] for token in apart[:WORDS]], 1).float() if has else None


def of_split(side: Optional[row_pairs.Side]) -> List[Dict[str, Any]]:
    """Where the texts of other rows are told; that nothing is told is no answer."""
    found = row_pairs.of_split(side)
    return [each for each in found if each["kind"] != row_pairs.COVERED or each["part"]]

"""Borders between prompt and answer that were counted from the first column of rows which are
padded on the left: they lie as many tokens too early as the row has padding."""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, List, NamedTuple

import torch

from .documents import Tokens
from .places import SEVERAL
from .relations import relation

LEAST, SURELY = 8, 0.9
"""Rows that are padded, and the share of them that must agree. Our own numbers."""


class Border(NamedTuple):
    row: int
    padding: int
    before: int
    """The token before the first trained one."""
    meant: int
    """The one before the border that is later by the padding."""


class LeftBorders:
    """Borders over batches; `records` has those that are too early."""

    def __init__(self) -> None:
        self._borders: List[Border] = []

    def add(self, tokens: Tokens, first_row: int) -> None:
        if tokens.labels is None or tokens.mask is None:
            return
        for number, (ids, labels, mask) in enumerate(zip(tokens.ids, tokens.labels, tokens.mask)):
            trained, used = torch.nonzero(labels >= 0), torch.nonzero(mask)
            if not len(trained) or not len(used):
                continue
            padding, begins = int(used[0]), int(trained[0])
            meant = begins + padding
            told = begins > padding or not padding  # else the border may lie within the padding
            if told and begins and meant < len(ids):
                self._borders.append(Border(first_row + number, padding, int(ids[begins - 1]),
                                            int(ids[meant - 1])))  # fmt: skip

    def records(self) -> List[Dict[str, Any]]:
        padded = [each for each in self._borders if each.padding]
        if len(padded) < LEAST or len({each.padding for each in padded}) < SEVERAL:
            return []
        token, count = Counter(each.meant for each in padded).most_common(1)[0]
        here = sum(each.before == token for each in padded)
        if count < SURELY * len(padded) or 2 * here > len(padded):
            return []
        found = [each.row for each in padded if each.meant == token]
        return [relation("border within padding", len(found), len(padded), (), found)]

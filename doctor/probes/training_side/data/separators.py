"""Rows of a language model that are cut from texts one behind the other, and hold nowhere the token
that ends a text."""

from __future__ import annotations

from typing import Any, Dict, List, Set

from .documents import Tokens
from .relations import relation

LEAST_ROWS, LEAST_TOKENS = 16, 1024
"""Our own numbers."""


class Separators:
    """Tokens of rows without padding; `records` has the ends that are in none of them."""

    def __init__(self, ends: Dict[str, int]) -> None:
        self._ends = ends
        self._found: Set[int] = set()
        self._rows = self._tokens = 0
        self._width = 0
        self._cut = True

    def add(self, tokens: Tokens) -> None:
        if not self._ends or not self._cut:
            return
        ids, labels, mask = tokens.ids, tokens.labels, tokens.mask
        whole = labels is not None and (mask is None or bool((mask != 0).all()))
        self._width = self._width or ids.shape[1]
        trained = labels is not None and not bool((labels[:, :-1] < 0).any())
        self._cut = whole and trained and ids.shape[1] == self._width > 1
        self._rows, self._tokens = self._rows + len(ids), self._tokens + ids.numel()
        for end in self._ends.values():
            held = bool((ids == end).any()) or (labels is not None and bool((labels == end).any()))
            self._found |= {end} if held else set()

    def records(self) -> List[Dict[str, Any]]:
        enough = self._rows >= LEAST_ROWS and self._tokens >= LEAST_TOKENS
        if not self._cut or not enough or self._found:
            return []
        return [
            relation("text without end", 1, 1, (name,), (), (end, self._tokens))
            for name, end in list(self._ends.items())[:1]
        ]

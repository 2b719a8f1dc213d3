"""Prompts that begin with the number of the list in which a model or a page gave them.

Only counts and numbers of rows leave this module.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Dict, List, Tuple

from ..foreign import Foreign
from .chats import asked_of
from .relations import relation

NUMBER = re.compile(
    r"\s*(?:(\d{1,3})[.)]\s|(?:prompt|question|example|instruction|task)\s*(\d{1,3})\s*[:.)]\s)",
    re.IGNORECASE,
)
AGAIN = re.compile(r"\n\s*\d{1,3}[.)]\s")
"""A list within the prompt, which begins with its first item."""
LEAST_DIFFERENT, MOST_OF_ONE = 3, 0.5
"""Different numbers, and the share of one of them: steps begin with 1. Our own numbers."""


class ListNumbers:
    """Counts over the rows of a file; `records` has them."""

    def __init__(self) -> None:
        self._rows: List[int] = []
        self._prompts = 0
        self._numbers: Counter[str] = Counter()

    def add(self, row: Foreign, number: int) -> None:
        prompt = next(iter(asked_of(row)), "")
        self._prompts += bool(prompt)
        found = NUMBER.match(prompt)
        if found and not AGAIN.search(prompt):
            self._rows.append(number)
            self._numbers[found[1] or found[2]] += 1

    def records(self) -> List[Dict[str, Any]]:
        most: Tuple[int, ...] = tuple(sorted(self._numbers.values()))[-1:]
        several = len(self._numbers) >= LEAST_DIFFERENT
        if not several or most[0] > MOST_OF_ONE * len(self._rows):
            return []
        return [relation("prompt numbered", len(self._rows), self._prompts, (), self._rows)]

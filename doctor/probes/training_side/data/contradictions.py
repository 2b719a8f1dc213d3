"""Equal prompts with different answers of a few that return, as yes and no: a class in a pair.

Only counts and numbers of rows leave this module.
"""

from __future__ import annotations

import hashlib
from typing import Any, Dict, List, Set

from ..foreign import Foreign
from .chats import ANSWERS, PROMPTS
from .relations import relation
from .row_contents import NUMBERS, feed, normal

LONGEST, RETURNS, MOST = 32, 8, 20
"""Characters of such an answer, rows for each on average, and answers at most: more are free, and
several of them may be right. Our own numbers."""


class Contradictions:
    """Counts over the rows of a file; `records` has them."""

    def __init__(self) -> None:
        self._first: Dict[bytes, str] = {}
        """What was asked -> its first answer."""
        self._rows: List[int] = []
        self._answers: Set[str] = set()
        self._asked = 0

    def add(self, row: Foreign, number: int) -> None:
        name = next((each for each in ANSWERS if isinstance(row.get(each), str)), None)
        if name is None or not any(isinstance(row.get(each), str) for each in PROMPTS):
            return
        self._asked += 1
        if len(self._answers) > MOST:
            return
        answer = normal(row[name]).casefold()
        self._answers.add(answer if len(answer) <= LONGEST else str(number))
        given = {str(n): v for n, v in row.items() if n != name and str(n).lower() not in NUMBERS}
        digest = hashlib.blake2b(digest_size=16)
        feed(digest, given)
        before = self._first.setdefault(digest.digest(), answer)
        if before != answer:
            self._rows.append(number)

    def records(self) -> List[Dict[str, Any]]:
        returning = 2 <= len(self._answers) <= min(MOST, self._asked / RETURNS)
        if not returning or not self._rows:
            return []
        return [relation("answers contradict", len(self._rows), self._asked, (), self._rows)]

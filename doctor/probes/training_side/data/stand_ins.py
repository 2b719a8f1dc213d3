"""Answers in files that stand for none: errors of a service, and places that a template left open;
and chats that are texts of JSON.

Only counts and numbers of rows leave this module.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Set, Tuple

from ..foreign import Foreign
from .chats import CHATS, PROMPTS, messages_of
from .columns import answers_of
from .relations import Relations, relation

LONGEST, AGAIN, OPEN = 200, 3, 0.3
"""Characters of an error, how often it occurs at least, and the share of different answers from
which on they are no classes. Our own numbers."""
ERROR = re.compile(
    r"(?:(?:(?:api|http|server|network) error\b|(?:error\b\W{0,3}(?:code\W{0,3})?)?"
    r"(?:rate limit (?:exceeded|reached)|(?:429|50[0234])\b(?:$|\W{1,3}"
    r"(?:too many|internal|bad|service|gateway))))|"
    r"(?:http )?(?:429|50[0234])\W{1,3}(?:too many|internal|bad|service|gateway)|"
    r"too many requests|(?:request|connection|gateway) (?:was |has )?(?:failed|time[d-]? ?out)|"
    r"(?:internal server|bad gateway|service unavailable))",
    re.IGNORECASE,
)
LEFT_OPEN = re.compile(
    r"\{\{\s*[\w.]{1,40}\s*\}\}|\[(?:INSERT|TODO|TBD|FIXME|PLACEHOLDER|YOUR)\b[A-Z _]{0,40}\]|"
    r"<(?:\w{1,20}[_ ])?placeholder\w{0,20}>|TODO|TBD"
)
"""All of an answer. Not null or undefined, which a task of extraction and a program answer."""
STANDS_IN = re.compile(r"\bplaceholder (?:response|answer|output|text)\b|\blorem ipsum\b", re.I)
QUOTED = re.compile(r"\s*\[\s*\{\s*['\"](?:role|from|content|value)['\"]\s*:")
"""A list of messages as a text of JSON or of Python."""
WORD = re.compile(r"\w+")
DIGITS = re.compile(r"\d+")


class StandIns:
    """Counts over the rows of a file; `records` has them."""

    def __init__(self, of_cells: bool = False) -> None:
        """`of_cells`: of a file such as CSV, which can hold a list as a text alone."""
        self._of_cells = of_cells
        self._relations = Relations()
        self._errors: Dict[str, List[int]] = {}
        """An error without its numbers -> its rows."""
        self._different: Set[int] = set()
        self._answers = 0

    def add(self, row: Foreign, number: int) -> None:
        for name in CHATS:
            value = row.get(name)
            if isinstance(value, (str, list)) and value:
                quoted = not self._of_cells and isinstance(value, str) and QUOTED.match(value)
                self._relations.count("chat in quotes", bool(quoted), number, name)
        for answer in (each.strip() for each in answers_of(row).values()):
            self._answers += 1
            self._different.add(hash(answer))
            left = LEFT_OPEN.fullmatch(answer) is not None and not is_told(answer, row)
            self._relations.count("answer left open", left or stands_in(answer, row), number)
            if len(answer) <= LONGEST and ERROR.match(answer) and not is_told(answer, row):
                self._errors.setdefault(DIGITS.sub("", answer), []).append(number)

    def records(self) -> List[Dict[str, Any]]:
        free = len(self._different) >= OPEN * self._answers
        found = [e for e in self._relations.records() if free or e["kind"] != "answer left open"]
        again: Tuple[int, ...] = tuple(
            sorted(n for each in self._errors.values() if len(each) >= AGAIN for n in each)
        )
        if free and 0 < 2 * len(again) < self._answers:  # else the subject is such errors
            found.append(relation("answer is error", len(again), self._answers, (), again))
        return found


def asked_in(row: Foreign) -> str:
    """All that was asked, or given beside it, in small letters."""
    chat = messages_of(row)
    asked = [row.get(name) for name in PROMPTS] if chat is None else [
        each.get("content") for each in chat if each.get("role") != "assistant"]  # fmt: skip
    return "\n".join(map(str, asked)).casefold()


def stands_in(answer: str, row: Foreign) -> bool:
    """Whether a short answer says that it is none, and nobody asked for one."""
    found = STANDS_IN.search(answer) if len(answer) <= LONGEST else None
    return found is not None and found.group().casefold().split()[0] not in asked_in(row)


def is_told(answer: str, row: Foreign) -> bool:
    """Whether what was asked holds the answer, or its first word, as where it is the subject."""
    words = {*WORD.findall(asked_in(row))}
    first = WORD.search(answer.casefold())
    return first is not None and first.group() in words

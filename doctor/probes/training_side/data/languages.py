"""Two texts of a row in two languages: rows in which they are exchanged, or in which one text
stands
on both sides.

Only counts and numbers of rows leave this module.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import combinations
from typing import Any, Dict, List, NamedTuple, Optional, Set

from .relations import relation

WORD = re.compile(r"[^\W\d_]+")
TRANSLATED = re.compile(
    r"(?i)(.*[._])?(src|source|tgt|trg|target|[a-z]{2}|[a-z]{2}[-_][a-z]{2,4}|english|german|french|"
    r"spanish|italian|portuguese|dutch|russian|polish|turkish|czech|swedish|finnish|romanian)"
    r"([._](text|texts|sentence|sent|raw))?"
)
"""Names of the sides of a translation: where one is code or a summary, the sides may be exchanged
on
purpose."""
LEAST_ROWS, LEAST, TIMES = 32, 4, 2.0
"""Rows; rows that have a word, and times as many as on the other side, of a word that tells its
language: a third of the rows may be exchanged. Our own numbers."""
TELLING, MOSTLY = 0.5, 0.6
"""Share of the words of a side that tell it, and of the rows that two languages tell apart. Two
texts
in one language have most of their words in common. Our own numbers."""
VOTES = 2
"""Words more of one language than of the other one, by which a text is of it. Our own number."""


class Sides(NamedTuple):
    """Words of the one side, and of the other one."""

    one: Set[str]
    other: Set[str]


def of_fields(fields: Dict[str, List[str]]) -> List[Dict[str, Any]]:
    """Records of pairs of fields in two languages."""
    found: List[Dict[str, Any]] = []
    words = {
        name: [set(WORD.findall(text.lower())) for text in each] for name, each in fields.items()
    }
    translated = [name for name in fields if TRANSLATED.fullmatch(name)]
    for one, other in combinations(translated, 2):
        sides = sides_of(words[one], words[other])
        if sides is None:
            continue
        votes = [(vote(a, sides), vote(b, sides)) for a, b in zip(words[one], words[other])]
        rows = len(votes)
        straight = sum(a >= VOTES and b <= -VOTES for a, b in votes)
        exchanged = [n for n, (a, b) in enumerate(votes) if a <= -VOTES and b >= VOTES]
        if straight < MOSTLY * rows or straight <= len(exchanged):
            continue
        each = enumerate(zip(fields[one], fields[other]))
        same = [n for n, (a, b) in each if a.strip() == b.strip() and len(words[one][n]) >= LEAST]
        kinds = (("languages exchanged", exchanged), ("text not translated", same))
        found += [relation(kind, len(e), rows, (one, other), e) for kind, e in kinds if e]
    return found


def sides_of(
    one: List[Set[str]], other: List[Set[str]], telling: float = TELLING
) -> Optional[Sides]:
    """The words of two languages; None where the texts are too few, or of one language.
    `telling`: share of the words of a side that must tell it."""
    if len(one) < LEAST_ROWS:
        return None
    counts = [Counter(word for row in each for word in row) for each in (one, other)]
    kept = []
    for mine, theirs in (counts, counts[::-1]):
        told = {word for word, n in mine.items() if n >= LEAST and n >= TIMES * theirs[word]}
        whole = sum(n for n in mine.values() if n >= LEAST)
        if not whole or sum(mine[word] for word in told) < telling * whole:
            return None
        kept.append(told)
    return Sides(*kept)


def vote(words: Set[str], sides: Sides) -> int:
    return len(words & sides.one) - len(words & sides.other)

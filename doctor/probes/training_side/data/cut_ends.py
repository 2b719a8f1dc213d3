"""Targets that end at the greatest length, and not as shorter ones do: they were cut."""

from __future__ import annotations

from collections import Counter
from typing import List, Sequence

SHORTEST, LEAST, SHARE = 8, 5, 0.05
"""Tokens of the longest, and rows and their share that end there. Our own numbers."""
USUAL, SURELY = 3, 0.9
"""Different ends of shorter ones, and the share of them that have one of these. Our own numbers."""


def cut(sizes: Sequence[int], ends: Sequence[int]) -> List[int]:
    """The places of those that are cut."""
    longest = max(sizes, default=0)
    at = [n for n, size in enumerate(sizes) if size == longest]
    shorter = Counter(end for size, end in zip(sizes, ends) if size < longest)
    usual = dict(shorter.most_common(USUAL))
    known = sum(usual.values()) >= max(LEAST, SURELY * sum(shorter.values()))
    if not known or longest < SHORTEST or len(at) < max(LEAST, SHARE * len(sizes)):
        return []
    found = [n for n in at if ends[n] not in usual]
    return found if 2 * len(found) > len(at) else []


def of_one_length(sizes: Sequence[int], texts: Sequence[Sequence[int]]) -> List[int]:
    """The places of those of the greatest length, where nearly all have it and end otherwise each:
    no text is written so."""
    longest = max(sizes, default=0)
    at = [n for n, size in enumerate(sizes) if size == longest]
    if longest < SHORTEST or len(at) < SURELY * len(sizes):
        return []
    most = Counter(texts[n][-1] for n in at).most_common(1)[0][1]
    return at if 2 * most < len(at) else []

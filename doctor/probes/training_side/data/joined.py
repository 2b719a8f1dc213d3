"""Two texts of a row that belong together: whether words that occur once on each side stand in the
same row, or, for a stretch of rows, a few rows further."""

from __future__ import annotations

import os
import re
from collections import Counter
from itertools import combinations
from typing import Any, Dict, List, Optional

from ..foreign import Foreign, containers, observing
from .relations import relation

MOST_ROWS, MOST_FIELDS, MOST_TEXT = 5_000, 6, 2_000
WORD = re.compile(r"[^\W_]+")
NEAR, LEAST_WORDS, RUN = 64, 24, 3
"""Rows by which one side is displaced at most, words that tell it, and neighbouring words with the
same displacement: chance gives no such run. Our own numbers."""


class Joined:
    """The words of each text field; `records` has pairs of fields that are displaced."""

    def __init__(self) -> None:
        self._fields: Dict[str, List[str]] = {}
        self._rows = 0

    def add(self, row: Foreign, number: int) -> None:
        if self._rows >= MOST_ROWS or not containers.is_mapping(row):
            return
        self._rows += 1
        for name, value in row.items():
            if isinstance(value, (str, os.PathLike)):
                text = os.fspath(value)[:MOST_TEXT]
                self._fields.setdefault(str(name), [""] * (self._rows - 1)).append(text)

    def records(self) -> List[Dict[str, Any]]:
        whole = {n: v for n, v in self._fields.items() if len(v) == self._rows}
        named = {n: alone(v) for n, v in list(whole.items())[:MOST_FIELDS]}
        found = []
        for one, other in combinations(named, 2):
            record = observing.attempt(lambda a=one, b=other: displaced(a, b, named), None)
            found += [record] if record is not None else []
        return found


def alone(texts: List[str]) -> Dict[str, int]:
    """Words that stand in one row alone, and that row."""
    rows: Dict[str, int] = {}
    counts: Counter[str] = Counter()
    for number, text in enumerate(texts):
        for word in set(WORD.findall(text.lower())):
            counts[word] += 1
            rows[word] = number
    return {word: row for word, row in rows.items() if counts[word] == 1}


def displaced(one: str, other: str, named: Dict[str, Dict[str, int]]) -> Optional[Dict[str, Any]]:
    ours, theirs = named[one], named[other]
    shared = sorted((ours[word], theirs[word] - ours[word]) for word in ours if word in theirs)
    near = [(row, moved) for row, moved in shared if abs(moved) <= NEAR]
    if len(near) < LEAST_WORDS or len(near) < 0.5 * len(shared):
        return None
    runs = [
        near[n][0]
        for n in range(len(near))
        if near[n][1]
        and any(
            all(each[1] == near[n][1] for each in near[at : at + RUN])
            for at in range(max(0, n - RUN + 1), n + 1)
            if at + RUN <= len(near)
        )
    ]
    if not runs:
        return None
    return relation("rows displaced", len(runs), len(near), (one, other), sorted(set(runs)))

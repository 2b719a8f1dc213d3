"""Two texts of a row that belong together: whether the rare words that they share, as numbers and
names, or two words in a row, stand in the same row, or for a stretch of rows some rows further."""

from __future__ import annotations

import os
import re
from collections import Counter
from itertools import combinations
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

import torch

from ..foreign import Foreign, containers
from . import languages
from .relations import relation

MOST_ROWS, MOST_FIELDS, MOST_TEXT = 5_000, 6, 2_000
WORD = re.compile(r"[^\W_]+")
MOST_PAIRED = 24
COMMON = 0.05
"""Share of the rows from which on a word tells nothing. Our own number."""
NEAR, BLOCK, LEAST, TIMES = 64, 32, 8, 4
"""Rows by which one side is displaced at most, rows that are displaced alike, those of them that
share a word there, and times as many as share one in their own row: of 129 places, chance gives
three or four of 32. Our own numbers."""


class Joined:
    """The text fields of rows; `records` has the pairs of fields that are displaced."""

    def __init__(self) -> None:
        self._fields: Dict[str, List[str]] = {}
        self._rows = 0

    def add(self, row: Foreign, number: int) -> None:
        if self._rows >= MOST_ROWS or not containers.is_mapping(row):
            return
        self._rows += 1
        for name, value in (*flat(row), *sides_of(row)):
            if isinstance(value, (str, os.PathLike)):
                text = os.fspath(value)[:MOST_TEXT]
                self._fields.setdefault(str(name), [""] * (self._rows - 1)).append(text)

    def records(self) -> List[Dict[str, Any]]:
        whole = {n: v for n, v in self._fields.items() if len(v) == self._rows}
        named = {n: words(v) for n, v in list(whole.items())[:MOST_FIELDS]}
        found = []
        for one, other in combinations(named, 2):
            at = displacements(named[one], named[other])
            moved = [block for block, rows in at.items() if rows]
            if moved and len(set(at.values())) > 1:  # by one number everywhere, it may be meant
                rows = [block * BLOCK for block in moved]
                part, told = len(moved) * BLOCK, len(at) * BLOCK
                found.append(relation("rows displaced", part, told, (one, other), rows))
        return found + languages.of_fields({name: whole[name] for name in named})


def flat(row: Foreign) -> Iterator[Tuple[str, Foreign]]:
    """The fields of a row, and those of a dict within it, as {"translation": {"en": ..., "de":
    ...}}."""
    for name, value in row.items():
        if containers.is_mapping(value):
            yield from (("%s.%s" % (name, inner), each) for inner, each in value.items())
        else:
            yield str(name), value


def sides_of(row: Foreign) -> Iterator[Tuple[str, str]]:
    """What a tokenized row trains, and what stands before it, as words that are numbers."""
    ids, labels = (host_list(row.get(name)) for name in ("input_ids", "labels"))
    if ids is None or labels is None or len(ids) != len(labels) or max(labels) < 0 <= min(labels):
        return
    for name, trained in (("the prompt", False), ("the answer", True)):
        yield name, " ".join(str(i) for i, label in zip(ids, labels) if (label >= 0) is trained)


def host_list(value: Foreign) -> Optional[List[int]]:
    if isinstance(value, torch.Tensor) and value.dim() == 1:
        value = value.tolist()
    whole = isinstance(value, list) and bool(value) and isinstance(value[0], int)
    return value if whole else None


def words(texts: List[str]) -> List[Set[str]]:
    """The rare words of each row."""
    each = [with_neighbours(WORD.findall(text.lower())) for text in texts]
    counts = Counter(word for row in each for word in row)
    most = max(1.0, COMMON * len(each))
    return [{word for word in row if counts[word] <= most} for row in each]


def with_neighbours(found: List[str]) -> Set[str]:
    """Words, and the first pairs of them: of short texts each word may be a common one."""
    first = found[:MOST_PAIRED]
    return {*found, *map(" ".join, zip(first, first[1:]))}  # noqa: RUF007 - of Python 3.10


def displacements(one: List[Set[str]], other: List[Set[str]]) -> Dict[int, int]:
    """Rows by which the other side of a block of rows is displaced; blocks that do not tell it are
    left out."""
    places: Dict[str, List[int]] = {}
    for row, found in enumerate(other):
        for word in found:
            places.setdefault(word, []).append(row)
    blocks: Dict[int, int] = {}
    for block in range(len(one) // BLOCK):
        votes: Counter[int] = Counter()
        telling = 0
        # A text that is repeated tells once.
        different = {frozenset(one[row]): row for row in range(block * BLOCK, (block + 1) * BLOCK)}
        for row in different.values():
            moves = {at - row for word in one[row] for at in places.get(word, ())}
            telling += bool(moves)
            votes.update(move for move in moves if abs(move) <= NEAR)
        best = max(votes, key=lambda move: (votes[move], -abs(move)), default=0)
        if votes[best] < max(LEAST, telling / 2):
            continue
        if not best or votes[best] >= TIMES * votes[0]:
            blocks[block] = best
    return blocks

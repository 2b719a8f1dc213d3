"""Answers whose first tokens are not trained: a border that was counted too far, as by a prompt
that was tokenized with an end of its own."""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch

from .documents import Document
from .labels import has_prompt
from .relations import relation
from .vocabulary import Vocabulary

HEADER, MOST_LATE = 2, 3
"""Tokens that stand before all answers, and those of an answer that are left out."""
LEAST, SURELY = 8, 0.9
"""Documents, and the share of them that has the header. Our own numbers."""
DIFFERENT, MANY, LENGTHS, FREQUENT = 0.25, 16, 8, 0.5
"""Share or number of different tokens between the header and what is trained, as texts have and a
choice of a few has not; different lengths of what stands before, as where the input is no single
word; share of the most frequent token before what is trained, which is no mark. Our own numbers."""


class Border(NamedTuple):
    row: int
    header: Tuple[int, ...]
    left_out: Tuple[int, ...]
    """Tokens behind the header that are not trained."""
    place: int


def records(documents: List[Document], vocabulary: Vocabulary) -> List[Dict[str, Any]]:
    begun = [each for each in documents if each.labels is not None and has_prompt(each)]
    for late in range(MOST_LATE + 1 if len(begun) >= LEAST else 0):
        borders = [border for each in begun if (border := border_of(each, late)) is not None]
        header, count = Counter(each.header for each in borders).most_common(1)[0]
        if count < SURELY * len(begun):
            continue
        found = [each for each in borders if each.header == header]
        last = [each.left_out[-1:] for each in found]
        special = any(vocabulary.is_special(each) for (each,) in set(last)) if late else True
        if special or not are_answers([each.left_out for each in found]):
            return []
        if len({each.place for each in found}) < LENGTHS:
            return []
        text = "".join(map(vocabulary.name, header))
        rows = [each.row for each in found]
        return [relation("answer begins late", count, len(begun), (text,), rows, (late + 1,))]
    return []


def border_of(document: Document, late: int) -> Optional[Border]:
    """The tokens before the first one that is trained; None where there are too few."""
    begins = int(torch.nonzero(document.trained)[0])
    place = begins - late - HEADER
    if place < 0:
        return None
    ids = tuple(document.ids[place:begins].tolist())
    return Border(document.row, ids[:HEADER], ids[HEADER:], place)


def are_answers(left_out: List[Tuple[int, ...]]) -> bool:
    """Whether they differ from row to row, to the last token."""
    last = Counter(each[-1] for each in left_out).most_common(1)[0][1]
    several = len(set(left_out)) >= min(MANY, DIFFERENT * len(left_out))
    return several and last <= FREQUENT * len(left_out)

"""Two splits of texts with texts as targets, as translations: whether eval has on the side of its
inputs what train has on that of its targets."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Set, Tuple

from ..foreign import Foreign
from . import languages
from .documents import host, tokens_of
from .labels import labels_in
from .relations import relation

LEAST_ROWS, MOSTLY, TELLING = 16, 0.6, 0.3
"""Rows of eval, the share of them that are exchanged, and the share of a side's tokens that tell
it: pieces of words tell less than words. Our own numbers."""

Sides = Tuple[List[Set[str]], List[Set[str]]]
"""The tokens of each row's input, and of its target."""


def of_batches(train: List[Foreign], other: List[Foreign]) -> List[Dict[str, Any]]:
    ours, theirs = sides_of(train), sides_of(other)
    sides = languages.sides_of(*ours, TELLING) if ours and theirs else None
    if sides is None or theirs is None or len(theirs[0]) < LEAST_ROWS:
        return []
    votes = [[languages.vote(side, sides) for side in row] for row in zip(*theirs)]
    exchanged = sum(one < 0 < two for one, two in votes)
    straight = sum(two < 0 < one for one, two in votes)
    if exchanged < MOSTLY * len(votes) or straight > exchanged / 4:
        return []
    return [relation("sides exchanged", exchanged, len(votes))]


def sides_of(batches: List[Foreign]) -> Optional[Sides]:
    """None where the targets are not those of a decoder."""
    found: Sides = ([], [])
    for batch in batches:
        tokens, labels = tokens_of(batch), labels_in(batch)
        if tokens is None or not tokens.foreign_labels or labels is None or labels.dim() != 2:
            return None
        if labels.is_floating_point() or len(labels) != len(tokens.ids):
            return None
        for side, values in zip(found, (tokens.ids, host(labels))):
            side += [{str(each) for each in row if each >= 0} for row in values.tolist()]
    return found

"""What is counted over batches beside their tokens and classes, and gives relations alone."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from ..foreign import Foreign, observing
from . import (
    codes,
    conditions,
    copies,
    interactions,
    label_sides,
    late_borders,
    left_borders,
    overwritten,
    packed_spans,
    piece_tags,
    pooled,
    separators,
    stated,
    token_places,
)
from .documents import Document, Tokens
from .facets import tag_pairs
from .vocabulary import Vocabulary


class BatchLooks:
    """Each look gets every batch; one that raises is left out."""

    def __init__(self, vocabulary: Vocabulary, module: Foreign, losses: stated.Stated) -> None:
        self._vocabulary = vocabulary
        self._codes = codes.Codes()
        self._copies = copies.Copies(module)
        self._in_batch = interactions.InBatch(losses.compares_pairs)
        self._conditions = conditions.Conditions()
        self._overwritten = overwritten.Overwritten()
        self._separators = separators.Separators(losses.ends)
        self._pooled = pooled.Pooled(module)
        self._piece_tags = piece_tags.PieceTags(vocabulary)
        self._left_borders = left_borders.LeftBorders()
        self._label_sides = label_sides.LabelSides()
        self._tag_pairs = tag_pairs.TagPairs()
        self._token_places = token_places.TokenPlaces(vocabulary.pad)

    def add(self, raw: Foreign, batch: Foreign, tokens: Optional[Tokens], row: int) -> None:
        """A batch as the loader gave it, and by the roles of its parts."""
        looks = [
            lambda: self._codes.add(batch),
            lambda: self._copies.add(batch, tokens, row),
            lambda: self._in_batch.add(batch, row),
            lambda: self._conditions.add(batch, row),
            lambda: self._overwritten.add(raw),
        ]
        for look in looks:
            observing.attempt(look, None)
        if tokens is not None:
            self._add_tokens(tokens, row)

    def _add_tokens(self, tokens: Tokens, row: int) -> None:
        self._token_places.add(tokens, row)
        observing.attempt(lambda: self._separators.add(tokens), None)
        observing.attempt(lambda: self._tag_pairs.add(tokens), None)
        observing.attempt(lambda: self._pooled.add(tokens, row), None)
        observing.attempt(lambda: self._piece_tags.add(tokens, row), None)
        observing.attempt(lambda: self._left_borders.add(tokens, row), None)
        observing.attempt(lambda: self._label_sides.add(tokens, row), None)

    def records(self, documents: List[Document]) -> List[Dict[str, Any]]:
        looks = [
            self._codes.records, self._copies.records, self._in_batch.records,
            lambda: self._token_places.records(documents, self._vocabulary),
            self._conditions.records, self._overwritten.records, self._separators.records,
            self._pooled.records, self._piece_tags.records, self._left_borders.records,
            self._tag_pairs.records, self._label_sides.records,
            lambda: packed_spans.records(documents),
            lambda: late_borders.records(documents, self._vocabulary),
        ]  # fmt: skip
        return [one for look in looks for one in observing.attempt(look, [])]

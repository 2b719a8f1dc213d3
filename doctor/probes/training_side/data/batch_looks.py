"""What is counted over batches of tokens, and gives relations alone."""

from __future__ import annotations

from typing import Any, Dict, List

from ..foreign import observing
from . import label_sides, late_borders, left_borders, packed_spans, token_places
from .documents import Document, Tokens
from .vocabulary import Vocabulary


class BatchLooks:
    """Each look gets every batch; one that raises is left out."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._left_borders = left_borders.LeftBorders()
        self._label_sides = label_sides.LabelSides()
        self._token_places = token_places.TokenPlaces(vocabulary.pad)

    def add(self, tokens: Tokens, row: int) -> None:
        self._token_places.add(tokens, row)
        observing.attempt(lambda: self._left_borders.add(tokens, row), None)
        observing.attempt(lambda: self._label_sides.add(tokens, row), None)

    def records(self, documents: List[Document]) -> List[Dict[str, Any]]:
        looks = [
            lambda: self._token_places.records(documents, self._vocabulary),
            self._left_borders.records,
            self._label_sides.records,
            lambda: packed_spans.records(documents),
            lambda: late_borders.records(documents, self._vocabulary),
        ]
        return [one for look in looks for one in observing.attempt(look, [])]

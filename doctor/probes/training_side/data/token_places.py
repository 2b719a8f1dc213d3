"""Special tokens and masks where they do not belong: between a prompt and its answer, or against
the padding."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import torch

from .documents import Document, Tokens
from .labels import has_prompt
from .padding import pad_of
from .relations import Relations
from .vocabulary import Vocabulary

MOST_KEPT, LEAST_PROMPT = 256, 3


class TokenPlaces:
    """Rows with a mask; `records` has what stands in a wrong place."""

    def __init__(self, pad: Optional[int]) -> None:
        self.pad = pad
        self._rows: List[Any] = []

    def add(self, tokens: Tokens) -> None:
        if tokens.mask is not None and len(self._rows) < MOST_KEPT:
            self._rows += zip(tokens.ids, tokens.mask)

    def records(self, documents: List[Document], vocabulary: Vocabulary) -> List[Dict[str, Any]]:
        relations = Relations()
        pad = pad_of([ids for ids, _ in self._rows]) if self.pad is None else self.pad
        for row, (ids, mask) in enumerate(self._rows) if pad is not None else ():
            text, outside = ids != pad, mask == 0
            wrong = bool((text & outside).any()) and int((~text & ~outside).sum()) > 1
            relations.count("mask against padding", wrong, row)
        for each in documents:
            if each.labels is not None and has_prompt(each):
                self._add_border(relations, each, vocabulary)
        return relations.records()

    def _add_border(self, relations: Relations, document: Document, vocabulary: Vocabulary) -> None:
        begins = int(torch.nonzero(document.trained)[0])
        if begins < LEAST_PROMPT:
            return
        before, first = int(document.ids[begins - 1]), int(document.ids[begins])
        bos = vocabulary.bos if vocabulary.bos != vocabulary.eos else None
        relations.count("stop before answer", before in vocabulary.stops, document.row)
        relations.count("start before answer", bos in (before, first), document.row)

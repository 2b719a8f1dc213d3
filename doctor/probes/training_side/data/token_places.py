"""Special tokens and masks where they do not belong: between a prompt and its answer, or against
the padding."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import torch

from ..foreign import observing
from .documents import BORDERS, Document, Tokens
from .labels import has_prompt
from .padding import pad_of
from .relations import Relations
from .vocabulary import Vocabulary, special_ids

MOST_KEPT, LEAST_PROMPT = 256, 3
MOST_HIDDEN = 0.72
"""Share of the tokens of a row that are masked at least, where 0.15 to 0.4 are usual and some
take more. Our own number."""


class TokenPlaces:
    """Rows with a mask; `records` has what stands in a wrong place."""

    def __init__(self, pad: Optional[int]) -> None:
        self.pad = pad
        self._rows: List[Any] = []
        self._relations = Relations()

    def add(self, tokens: Tokens, first_row: int) -> None:
        for name in BORDERS:
            ends = tokens.others.get(name)
            if ends is not None and ends.dim() == 1 and len(ends) > 1:
                right = int(ends[0]) == 0 and int(ends[-1]) == tokens.ids.numel()
                rising = bool((ends[1:] > ends[:-1]).all())
                self._relations.count("borders wrong", not (right and rising), first_row, name)
        if tokens.mask is not None and len(self._rows) < MOST_KEPT:
            self._rows += zip(tokens.ids, tokens.mask)

    def records(self, documents: List[Document], vocabulary: Vocabulary) -> List[Dict[str, Any]]:
        relations = self._relations
        pad = pad_of([ids for ids, _ in self._rows]) if self.pad is None else self.pad
        for row, (ids, mask) in enumerate(self._rows) if pad is not None else ():
            text, outside = ids != pad, mask == 0
            wrong = bool((text & outside).any()) and int((~text & ~outside).sum()) > 1
            relations.count("mask against padding", wrong, row)
        mask = observing.attribute(vocabulary.tokenizer, "mask_token_id")
        special = torch.tensor(sorted(special_ids(vocabulary.tokenizer) - {mask}))
        for each in documents if masks_tokens(documents, vocabulary) else ():
            labels = each.labels[each.labels >= 0] if each.labels is not None else special[:0]
            relations.count("special predicted", bool(torch.isin(labels, special).any()), each.row)
            relations.count("mask predicted", bool((labels == mask).any()), each.row)
            hidden = hidden_share(each, mask, special)
            relations.count("most is masked", hidden > MOST_HIDDEN, each.row)
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


def hidden_share(document: Document, mask: int, special: torch.Tensor) -> float:
    """The share of the mask in a text, and of the labels that most masks belong to: a tenth of the
    tokens that are predicted may be another token, and a tenth the token itself."""
    masked, text = document.ids == mask, ~torch.isin(document.ids, special)
    share = float(masked.float().mean())
    if document.labels is None or 2 * int(masked.sum()) < int(document.trained.sum()):
        return share
    return max(share, float(document.trained[text].float().mean()) if bool(text.any()) else 0.0)


def masks_tokens(documents: List[Document], vocabulary: Vocabulary) -> bool:
    """Whether it is a masked language model that is trained: rows have the token of the mask."""
    mask = observing.attribute(vocabulary.tokenizer, "mask_token_id")
    rows = documents[:MOST_KEPT] if isinstance(mask, int) else []
    return 2 * sum(bool((each.ids == mask).any()) for each in rows) > len(rows)

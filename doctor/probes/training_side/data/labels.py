"""Counts over documents: labels, lengths."""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, List, Optional, Tuple

import torch

from ..foreign import Foreign, containers
from .documents import Document, host, quantiles, runs
from .views import LABELS

IGNORED = -100
OFFSETS = (-1, 0, 1, 2)
SAME = 0.9
"""Share of trained labels that are tokens of the row itself, at one offset, where the row's own
tokens are trained; masked language models keep a tenth of theirs."""
MOST_ROWS = 5
LEAST_PROMPT = 4
"""Tokens of a prompt, so that an answer does not begin with them by chance."""


class OtherLabels:
    """Labels that are not of the tokens' shape: of a decoder, of sound, or one class a row."""

    def __init__(self) -> None:
        self.rows = self.ignored = 0
        self.first: List[int] = []

    def add(self, batch: Foreign, first_row: int) -> None:
        value = labels_in(batch)
        if value is None or value.is_floating_point() or not value.dim():
            return
        ignored = (host(value) == IGNORED).reshape(len(value), -1).all(1)
        self.rows += len(value)
        self.ignored += int(ignored.sum())
        found = [first_row + int(row) for row in torch.nonzero(ignored)]
        self.first = (self.first + found)[:MOST_ROWS]

    def record(self) -> Optional[Dict[str, Any]]:
        if not self.rows:
            return None
        return {
            "type": "Labels",
            "objective": "other tokens",
            "documents": self.rows,
            "unlabelled": self.ignored,
            "rows": self.first,
        }


def labels_in(batch: Foreign) -> Optional[torch.Tensor]:
    """The labels of a batch by their name."""
    if not containers.is_mapping(batch):
        return None
    found = next((batch[name] for name in LABELS if name in batch), None)
    return found if isinstance(found, torch.Tensor) and found.numel() else None


def lengths(documents: List[Document]) -> Optional[Dict[str, Any]]:
    return quantiles([len(each.ids) for each in documents]) if documents else None


class LabelCounts:
    """Counts over documents as they come; `record` has them.

    `most_compared`: positions whose neighbours are compared, in all, to tell what the labels are.
    """

    def __init__(self, most_compared: float = float("inf"), mask: Optional[int] = None) -> None:
        self._most_compared = most_compared
        self._mask = mask
        self._masked = self._masks = 0
        """Tokens of the mask without a label, and all of them."""
        self.documents = self.tokens = self.trained = self.prompts = self.inverted = 0
        self.compared = self.same = self.longest = self.twice = 0
        self.shortest: Optional[int] = None
        self.matches = dict.fromkeys(OFFSETS, 0)
        self.empty: List[Tuple[int, int]] = []
        """Row and length of documents without a trained label."""
        self.ignored = 0
        """What the labels are that are not trained; 0 until one was seen."""
        self._alone = 0
        """Trained labels between others that are not."""
        self._tokens: Counter[int] = Counter()

    def add(self, document: Document) -> None:
        """Nothing if it has no labels of its own shape."""
        ids, values = document.ids, document.labels
        if values is None:
            return
        length, trained = len(ids), document.trained
        count = int(trained.sum())
        self.documents += 1
        self.tokens += length
        self.trained += count
        self.longest = max(self.longest, length)
        self.shortest = length if self.shortest is None else min(self.shortest, length)
        if not self.ignored and count < length:
            self.ignored = int(values.min())
        if not count:
            self.empty.append((document.row, length))
            return
        if self._mask is not None:
            self._masks += int((ids == self._mask).sum())
            self._masked += int(((ids == self._mask) & ~trained).sum())
        self.prompts += has_prompt(document)
        self.inverted += is_inverted(document)
        self.twice += trains_prompt_again(document)
        self.same += int(((values == ids) & trained).sum())
        self._alone += int((trained[1:-1] & ~trained[:-2] & ~trained[2:]).sum())
        self._tokens.update(values[trained].tolist())
        self._add_offsets(ids, values, trained)

    def _add_offsets(self, ids: torch.Tensor, values: torch.Tensor, trained: torch.Tensor) -> None:
        """Trained positions whose neighbouring tokens all differ, and those of each offset."""
        if len(ids) < 5 or self.compared >= self._most_compared:
            return
        inner = slice(1, len(ids) - 2)
        windows = [ids[1 + k : len(ids) - 2 + k] for k in OFFSETS]
        differ = trained[inner].clone()
        for i, one in enumerate(windows):
            for other in windows[i + 1 :]:
                differ &= one != other
        self.compared += int(differ.sum())
        for k, window in zip(OFFSETS, windows):
            self.matches[k] += int(((values[inner] == window) & differ).sum())

    def record(self) -> Optional[Dict[str, Any]]:
        """The record Labels; None where no document has labels of its own shape."""
        if not self.documents:
            return None
        shorter = self.shortest != self.longest
        return {
            "type": "Labels",
            "objective": "next token" if self._are_own() else "other tokens",
            "documents": self.documents,
            "unlabelled": len(self.empty),
            "rows": [row for row, _ in self.empty[:MOST_ROWS]],
            "full": sum(shorter and length == self.longest for _, length in self.empty),
            "tokens": self.tokens,
            "trained": self.trained,
            "compared": self.compared,
            "matches": {str(k): number for k, number in self.matches.items() if number},
            "prompts": self.prompts,
            "inverted": self.inverted,
            "twice": self.twice,
            "ignored": self.ignored if self.ignored < 0 else -100,
        }

    def _are_own(self) -> bool:
        """Whether the labels are the rows' tokens, also where too few tell at which offset."""
        if self._are_of_one_token() or self._masked > SAME * self._masks:
            return False
        if not self.compared:
            return self.trained > 0 and self.same >= SAME * self.trained
        return max(self.matches.values()) >= SAME * self.compared

    def _are_of_one_token(self) -> bool:
        """Whether the labels stand apart and are mostly one token, as that of the mask."""
        most = max(self._tokens.values(), default=0)
        return 2 * most > self.trained and 2 * self._alone > self.trained


def labels(documents: List[Document], mask: Optional[int] = None) -> Optional[Dict[str, Any]]:
    """The record Labels of documents; `mask`: the token that hides others."""
    counts = LabelCounts(mask=mask)
    for each in documents:
        counts.add(each)
    return counts.record()


def has_prompt(document: Document) -> bool:
    """Its first two tokens are not trained, and later ones are."""
    trained = document.trained
    return bool(trained.any()) and len(trained) > 2 and not bool(trained[:2].any())


def is_inverted(document: Document) -> bool:
    """Its first tokens are trained, and its last ones are not; one token again and again behind
    them is padding, and no answer."""
    ids = document.ids
    filling = runs(ids, int(ids[-1]))[1] if len(ids) else 0
    trained = document.trained[: len(ids) - filling * (filling > 1)]
    return len(trained) > 5 and bool(trained[1:3].all()) and not bool(trained[-3:].any())


def trains_prompt_again(document: Document) -> bool:
    """Whether the trained part begins with the prompt, but for its first and its last token."""
    trained = torch.nonzero(document.trained)
    begins = int(trained[0]) if len(trained) else 0
    prompt = document.ids[1 : max(1, begins - 1)]
    if len(prompt) < LEAST_PROMPT:
        return False
    after = [document.ids[begins + skipped :][: len(prompt)] for skipped in (0, 1)]
    return any(torch.equal(each, prompt) for each in after)

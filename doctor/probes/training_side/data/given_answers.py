"""Prompts that end with the answer that stands beside them, as where both were joined for another
training."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional, Set

from ..foreign import Foreign, containers, observing
from .documents import Tokens
from .relations import Relations
from .vocabulary import Vocabulary

ANSWERS = ("answer", "answers", "solution", "ground_truth", "reference", "target", "completion")
LONGEST, LEAST_DIFFERENT = 512, 10
"""Tokens at the end of a prompt that are decoded, and different answers that are no classes. Our
own numbers."""
BEFORE = re.compile(r"\bor\W*$", re.IGNORECASE)
"""A question with the answers to choose from."""
BEHIND = re.compile(
    r"<[|\w\uff5c/]{1,40}>|\b(?:assistant|model)\b|[^\w?\uff1f\u061f]|_", re.IGNORECASE
)
"""What a template writes behind a prompt."""


class GivenAnswers:
    """Counts over batches of prompts; `records` has them."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._tokenizer = vocabulary.tokenizer
        self._relations = Relations()
        self._different: Set[str] = set()

    def add(self, raw: Foreign, tokens: Optional[Tokens], first_row: int) -> None:
        """Of batches of tokens without labels, with a list of answers."""
        plain = tokens is not None and tokens.labels is None and not tokens.foreign_labels
        if not plain or tokens is None or self._tokenizer is None or not containers.is_mapping(raw):
            return
        answers: Foreign = next((raw[name] for name in ANSWERS if name in raw), None)
        if not isinstance(answers, (list, tuple)) or len(answers) != len(tokens.ids):
            return
        for number, (ids, answer) in enumerate(zip(tokens.ids, answers)):
            kept = ids if tokens.mask is None else ids[tokens.mask[number] != 0]
            text = str(self._tokenizer.decode(kept[-LONGEST:].tolist()))
            self._different.add(str(answer))
            self._relations.count("answer ends prompt", ends_with(text, answer), first_row + number)

    def records(self) -> List[Dict[str, Any]]:
        return self._relations.records() if len(self._different) >= LEAST_DIFFERENT else []


def ends_with(prompt: str, answer: Foreign) -> bool:
    """Whether nothing but what a template writes stands behind the answer, and no question ends."""
    text = str(answer).strip() if isinstance(answer, (str, int, float)) else ""
    at = observing.attempt(lambda: prompt.rindex(text), -1) if text else -1
    alone = at > 0 and not (prompt[at - 1].isalnum() and text[0].isalnum())
    one_of = alone and BEFORE.search(prompt[max(0, at - 16) : at])
    return alone and not one_of and not BEHIND.sub("", prompt[at + len(text) :])

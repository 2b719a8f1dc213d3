"""Chats that train all their tokens, what the user says included."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional, Tuple

from . import templates
from .documents import Document
from .relations import relation
from .row_ends import places
from .vocabulary import Vocabulary, special_ids

ASKS = re.compile(r"(?i)(?<![a-z])(?:user|human|prompter|question|instruction)(?![a-z])")
ANSWERS = re.compile(r"(?i)(?<![a-z])(?:assistant|bot|gpt|model|answer|response)(?![a-z])")
"""Names of tokens for the roles, as in <|user|>, <|prompter|> and <|bot|>."""
Roles = List[List[int]]


def trained(documents: List[Document], vocabulary: Vocabulary) -> List[Dict[str, Any]]:
    """The record of them, with the share of their trained tokens before the last answer, in %."""
    labelled = [each for each in documents if each.labels is not None and bool(each.trained.any())]
    asks, answers = _roles(labelled, vocabulary)
    rows, chats, before, tokens = [], 0, 0, 0
    for each in labelled if asks and answers else ():
        question, answer = _first(each, asks), _last(each, answers)
        if question is None or answer is None or question >= answer:
            continue
        chats += 1
        if bool(each.trained[1:answer].all()) and bool(each.trained[answer:].any()):
            rows.append(each.row)
            before += int(each.trained[:answer].sum())
            tokens += int(each.trained.sum())
    if not rows:
        return []
    return [
        relation("prompts trained", len(rows), chats, (), rows, (round(100 * before / tokens),))
    ]


def _roles(documents: List[Document], vocabulary: Vocabulary) -> Tuple[Roles, Roles]:
    """What stands before a question and before an answer: by the chat template, else by the names
    of special tokens."""
    prompt = templates.prompt_of(vocabulary) if documents else None
    if prompt is not None and prompt.question and prompt.marker:
        return [list(prompt.question)], [prompt.marker]
    special = special_ids(vocabulary.tokenizer)
    held = {token for each in documents for token in set(each.ids.tolist()) & special}
    names = {token: vocabulary.name(token) for token in held}
    asks = [[token] for token, name in names.items() if ASKS.search(name)]
    answers = [[token] for token, name in names.items() if ANSWERS.search(name)]
    return asks, [each for each in answers if each not in asks]


def _first(document: Document, roles: Roles) -> Optional[int]:
    """Where the first message of a role begins."""
    starts = [int(found[0]) for role in roles if len(found := places(document.ids, role))]
    return min(starts, default=None)


def _last(document: Document, roles: Roles) -> Optional[int]:
    """Where the text of the last message of a role begins."""
    ends = [
        int(found[-1]) + len(role) for role in roles if len(found := places(document.ids, role))
    ]
    return max(ends, default=None)

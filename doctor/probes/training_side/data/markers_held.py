"""Why rows have no trained label: markers that a collator looks for and which they lack, and a chat
template that does not say which tokens are the assistant's."""

from __future__ import annotations

import re
from typing import Any, Dict, List

import torch

from ..foreign import Foreign, containers, observing
from .documents import Document
from .relations import relation
from .row_ends import contains
from .targets import Source
from .templates import tokenized
from .vocabulary import Vocabulary

NAME = re.compile(r"(?i)template|marker|response|answer|instruction|prefix|header")
GENERATION = re.compile(r"\{%-?\s*generation\b")
MOST_TOKENS = 32


def absent(
    source: Source, documents: List[Document], vocabulary: Vocabulary
) -> List[Dict[str, Any]]:
    """Records of those attributes of the collator, of documents that have no trained label."""
    collator = observing.attribute(source.items, "collate_fn")
    held = observing.attribute(collator, "__dict__", {})
    found = []
    for name, value in dict(held).items() if containers.is_mapping(held) else ():
        ids = ids_of(value, vocabulary) if NAME.search(str(name)) else []
        if ids and not any(contains(each.ids, ids) for each in documents):
            found.append(relation("marker nowhere", len(documents), len(documents), (str(name),)))
    return found


def unmarked(documents: List[Document], vocabulary: Vocabulary) -> List[Dict[str, Any]]:
    """The record of chats whose template has no {% generation %}, by which masks are made."""
    template = observing.attribute(vocabulary.tokenizer, "chat_template")
    if not isinstance(template, str) or not template or GENERATION.search(template):
        return []
    return [relation("answers unmarked", len(documents), len(documents))]


def ids_of(value: Foreign, vocabulary: Vocabulary) -> List[int]:
    """The tokens of a marker; [] of anything else."""
    if isinstance(value, str) and vocabulary.tokenizer is not None:
        return observing.attempt(lambda: tokenized(vocabulary.tokenizer, value), [])
    if isinstance(value, torch.Tensor):
        value = value.tolist()
    whole = isinstance(value, (list, tuple)) and all(type(each) is int for each in value)
    return list(value) if whole and 0 < len(value) <= MOST_TOKENS else []

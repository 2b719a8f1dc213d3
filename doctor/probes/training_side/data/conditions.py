"""Conditions of a generating model, as prompts and captions, that are empty in most rows: guidance
without a classifier leaves out a tenth of them."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Dict, List

import torch

from ..foreign import Foreign, containers
from .documents import host
from .given import label_name
from .relations import Relations, relation
from .targets import Source
from .two_splits import stated_classes

NAMES = re.compile(
    r"(.*[_.])?(prompt|caption|text|cond|condition|conditioning|context|instruction)s?"
    r"([_.](ids?|input_ids|tokens?|emb|embs|embeds?|embedding|embeddings))?"
)
BEGINS, LEAST_TOKENS, LEAST_OTHERS = 2, 4, 8
"""Tokens that begin and end an empty text, tokens of a row, and different rows that are not empty.
Our own numbers."""


class Conditions:
    """Counts over batches; `records` has the fields that have other rows, too."""

    def __init__(self) -> None:
        self._relations = Relations()
        self._others: Dict[str, Dict[bytes, None]] = {}

    def add(self, batch: Foreign, first_row: int) -> None:
        if not containers.is_mapping(batch):
            return
        for name, value in containers.tensors(batch).items():
            measured = value.is_floating_point() and "emb" not in name.lower()
            if measured or not NAMES.fullmatch(name.lower()) or value.dim() not in (2, 3):
                continue  # features of a context may well be 0
            for number, row in enumerate(host(value)):
                empty = is_empty(row)
                self._relations.count("condition empty", empty, first_row + number, name)
                others = self._others.setdefault(name, {})
                if not empty and len(others) < LEAST_OTHERS:
                    others[row.numpy().tobytes() if row.dtype != torch.bfloat16 else b""] = None

    def records(self) -> List[Dict[str, Any]]:
        found = self._relations.records()
        return [e for e in found if len(self._others.get(e["fields"][0], ())) >= LEAST_OTHERS]


def of_classes(source: Source, batches: List[Foreign]) -> List[Dict[str, Any]]:
    """A record of a class that the loader gives most rows, and the dataset itself none: the one for
    no condition."""
    held = stated_classes(source)
    found: Counter[str] = Counter()
    for batch in batches:
        named = containers.tensors(batch)
        name = label_name(batch, named)
        if name is None or named[name].dim() != 1 or named[name].is_floating_point():
            return []
        found.update(map(str, named[name].tolist()))
    kind, count = found.most_common(1)[0] if found else ("", 0)
    if len(held) < 2 or kind in held or len(set(found) & set(held)) < 2:
        return []
    return [relation("condition empty", count, sum(found.values()), ("class %s" % kind,))]


def is_empty(row: torch.Tensor) -> bool:
    """Tokens of one kind behind the first ones, or an embedding of zeros."""
    if row.is_floating_point():
        return not bool(row.any())
    rest = row[BEGINS:]
    return row.dim() == 1 and len(row) >= LEAST_TOKENS and bool((rest == rest[:1]).all())

"""Packed rows: whether the first document of a row and those behind it are trained at the same
place."""

from __future__ import annotations

from typing import Any, Dict, List

from .documents import Document
from .labels import has_prompt
from .relations import relation

LEAST_ROWS, ANSWERED, DISPLACED = 4, 0.9, 0.5
"""Packed rows, the share of their first documents whose end alone is trained, and the share of the
others that are not so. Our own numbers."""
ENDS = 2
"""Tokens at the end of a document, of which a template may leave the last one out."""


def records(documents: List[Document]) -> List[Dict[str, Any]]:
    """A record where labels fit the first document of packed rows, and are displaced behind it."""
    rows: Dict[int, List[Document]] = {}
    for each in documents:
        if each.labels is not None:
            rows.setdefault(each.row, []).append(each)
    packed = [each for each in rows.values() if len(each) > 1]
    answered = sum(trains_its_end(each[0]) for each in packed)
    if len(packed) < LEAST_ROWS or answered < ANSWERED * len(packed):
        return []
    later = [one for each in packed for one in behind(each)]
    moved = [each.row for each in later if not trains_its_end(each)]
    if len(moved) <= DISPLACED * len(later):
        return []
    return [relation("answers displaced", len(moved), len(later), (), list(dict.fromkeys(moved)))]


def behind(row: List[Document]) -> List[Document]:
    """The documents behind the first one; the last may be cut before its answer."""
    cut = not bool(row[-1].trained.any())
    return row[1:-1] if cut else row[1:]


def trains_its_end(document: Document) -> bool:
    return has_prompt(document) and bool(document.trained[-ENDS:].any())

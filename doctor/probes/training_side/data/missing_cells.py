"""Cells that nearly all other rows fill in: rows that are separators alone, and rows without the
class or the text that a training reads.

Only counts, names of columns and numbers of rows leave this module.
"""

from __future__ import annotations

from typing import Any, Dict, List, Set

from ..foreign import Foreign
from .columns import is_blank
from .relations import relation
from .views import LABELS

CLASSES = (*LABELS, "class", "sentiment")
TEXTS = ("text", "sentence", "premise", "hypothesis", "prompt", "instruction", "question")
MOST = 0.1
"""Share of rows without it up to which it was lost: of more it may be an unlabelled part. Our own
number."""


class MissingCells:
    """Counts over the rows of a file; `records` has them."""

    def __init__(self) -> None:
        self._empty: List[int] = []
        self._read = 0
        self._columns: Set[str] = set()
        self._filled: Set[str] = set()
        self._missing: Dict[str, List[int]] = {}

    def add(self, row: Foreign, number: int) -> None:
        self._read += 1
        self._columns.update(map(str, row))
        filled = [str(name) for name, value in row.items() if not is_blank(value)]
        self._filled.update(filled)
        if not filled:
            self._empty.append(number)
            return
        for name, value in row.items():
            lower = str(name).lower()
            of_class = lower in CLASSES and lower != "y" and is_absent(value)  # beside x, a place
            if of_class or (lower in TEXTS and value is None):
                self._missing.setdefault(str(name), []).append(number)

    def records(self) -> List[Dict[str, Any]]:
        found = [
            relation("cell missing", len(rows), self._read, (name,), rows)
            for name, rows in self._missing.items()
            if len(rows) <= MOST * self._read and name in self._filled
        ]
        # none of one column, nor where a column has no value at all, as of an unlabelled file
        if self._empty and len(self._columns) > 1 and self._columns == self._filled:
            found.append(relation("row empty", len(self._empty), self._read, (), self._empty))
        return found


def is_absent(value: Foreign) -> bool:
    """Whether there is no value; `none` may be a class."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, float) and value != value)

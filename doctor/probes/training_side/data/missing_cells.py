"""Cells that nearly all other rows fill in: rows that are separators alone, and rows without the
class or the text that a training reads.

Only counts, names of columns and numbers of rows leave this module.
"""

from __future__ import annotations

from typing import Any, Dict, List, Set, Tuple

from ..foreign import Foreign
from .chats import ANSWERS, PROMPTS, messages_of
from .columns import is_blank
from .pages import ANSWERED
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


class OtherAnswers:
    """Columns of answers over the rows of a file; `records` has those that some rows name in
    another way, or lack."""

    def __init__(self) -> None:
        self._rows: Dict[Tuple[str, Tuple[str, ...]], List[int]] = {}
        """Column of the prompt, and those with an answer -> rows."""
        self._columns: Dict[Tuple[str, Tuple[str, ...]], Set[str]] = {}

    def add(self, row: Foreign, number: int) -> None:
        prompt = next((name for name in PROMPTS if isinstance(row.get(name), str)), None)
        names = tuple(name for name in ANSWERS if row.get(name) is not None)
        empty = not names and any(name in row for name in ANSWERED)  # see RowTexts
        if prompt is None or empty or messages_of(row) is not None:
            return
        self._rows.setdefault((prompt, names), []).append(number)
        filled = {str(name) for name, value in row.items() if value is not None}
        self._columns.setdefault((prompt, names), set()).update(filled)

    def records(self) -> List[Dict[str, Any]]:
        """By rows whose prompt has one name; where both differ, there are two forms by intent."""
        answered = [each for each in self._rows if each[1]]
        if not answered:
            return []
        usual = max(answered, key=lambda each: len(self._rows[each]))
        whole = sum(map(len, self._rows.values()))
        found = []
        for each, rows in self._rows.items():
            if {*each[1]} & {*usual[1]}:
                continue
            meant = each[0] != usual[0] or (
                not each[1] and not self._columns[each] <= self._columns[usual])  # fmt: skip
            kind = "answer in another form" if meant else "answer under another name"
            kind = kind if each[1] or meant else "answer absent"
            found.append(relation(kind, len(rows), whole, (usual[1][0], *each[1][:1]), rows))
        return found


def is_absent(value: Foreign) -> bool:
    """Whether there is no value; `none` may be a class."""
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, float) and value != value)

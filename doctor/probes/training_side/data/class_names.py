"""Columns of classes over all rows of a file: names that differ by a sign behind them, and numbers
that are no 0 to k - 1.

Only counts, names of columns and numbers of rows leave this module.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional

from ..foreign import Foreign
from .chats import ANSWERS, PROMPTS
from .pages import DOCUMENTS
from .relations import relation
from .row_texts import LONGEST, MOST_VALUES, SHORTEST

NUMBERED = ("label", "labels", "class", "fine_label")
MOST_CLASSES, LEAST_CLASSES, LEAST_ROWS, APART = 1_000, 8, 4, 10
"""Numbers of classes, rows of one on average, and how many times their number the greatest one is.
Our own numbers."""
TEXTS = (*PROMPTS, *ANSWERS, *DOCUMENTS, "sentence", "title")
SIGNS = ". "
"""Behind a name; C and C++, A+ and A-, Nf3 and Nf3! are two classes."""
WHOLE = re.compile(r"\d{1,9}")


class ClassNames:
    """Values of columns; `records` has what was found in those of classes."""

    def __init__(self) -> None:
        self._rows = 0
        self._names: Dict[str, Optional[Dict[str, List[int]]]] = {}
        self._numbers: Dict[str, Optional[Dict[int, int]]] = {}
        """Column -> its values, and the rows of each or their number; None: no classes."""

    def add(self, row: Foreign, number: int) -> None:
        self._rows += 1
        for name, value in row.items():
            if isinstance(value, str) and str(name).lower() not in TEXTS:
                self._add_name(str(name), value.strip(), number)
            if str(name).lower() in NUMBERED:
                self._add_number(str(name), value)

    def _add_name(self, name: str, value: str, number: int) -> None:
        values = self._names.setdefault(name, {})
        if values is not None:
            values.setdefault(value, []).append(number)
            if len(values) > MOST_VALUES or len(value) > LONGEST:
                self._names[name] = None

    def _add_number(self, name: str, value: Foreign) -> None:
        values = self._numbers.setdefault(name, {})
        whole = type(value) is int or (isinstance(value, str) and WHOLE.fullmatch(value))
        if values is not None:
            number = int(value) if whole else -1
            values[number] = values.get(number, 0) + 1
            if number < 0 or len(values) > MOST_CLASSES:
                self._numbers[name] = None

    def records(self) -> List[Dict[str, Any]]:
        found = []
        for name, values in self._names.items():
            fewer = ended_otherwise(values or {})
            if fewer:
                found.append(relation("class ends otherwise", len(fewer), self._rows, (name,),
                                      fewer))  # fmt: skip
        for name, counts in self._numbers.items():
            many = counts and LEAST_CLASSES <= len(counts) <= self._rows / LEAST_ROWS
            if counts and many and max(counts) >= APART * len(counts):
                found.append(relation("labels far apart", 1, 1, (name,), (),
                                      (len(counts),)))  # fmt: skip
        return found


def ended_otherwise(values: Dict[str, List[int]]) -> List[int]:
    """The rows of the rarer name, where two are equal but for a sign behind them."""
    if sum(map(len, values.values())) < LEAST_ROWS * len(values):
        return []
    groups: Dict[str, List[List[int]]] = {}
    for value, rows in values.items():
        plain = value.rstrip(SIGNS)
        if len(plain) >= SHORTEST and not plain.replace(",", "").replace(".", "").isdigit():
            groups.setdefault(plain, []).append(rows)
    return sorted(n for group in groups.values() for rows in sorted(group, key=len)[:-1]
                  for n in rows)  # fmt: skip

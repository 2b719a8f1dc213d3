"""Columns of tables that are filled in for some classes alone: they were written after the class
was known, and give it away."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Set

from ..foreign import Foreign
from .chats import ANSWERS, PROMPTS
from .columns import is_blank
from .views import LABELS

LONGEST = 64
"""Characters of a cell in a table whose last column is taken for the class. Our own number."""
LEAST, LEAST_PER_SIDE, CLASSES = 64, 8, 10
"""Rows, rows of the classes with and without a value, and classes at most. Our own numbers."""


class Leaks:
    """Counts over the rows of a table; `record` has the columns."""

    def __init__(self) -> None:
        self.rows = 0
        self._counts: Dict[str, int] = {}
        """Class -> rows."""
        self._filled: Dict[str, Dict[str, int]] = {}
        """Column -> class -> rows with a value."""
        self._label: Optional[str] = None
        self._named = self._closed = False

    def add(self, row: Foreign) -> None:
        """The class is in the column that is named so, else in the last one."""
        if self._closed or len(row) < 3 or any(name in row for name in (*PROMPTS, *ANSWERS)):
            return
        if self._label is None:
            names = [str(name) for name in row]
            self._label = next((n for n in names if n.lower() in (*LABELS, "class")), names[-1])
            self._named = self._label != names[-1] or self._label.lower() in (*LABELS, "class")
        value = row.get(self._label)
        if is_blank(value) or not isinstance(value, (str, int, bool)):
            return
        of_class = str(value)[:64]
        self.rows += 1
        self._counts[of_class] = self._counts.get(of_class, 0) + 1
        self._closed = len(self._counts) > CLASSES
        if not self._named and any(isinstance(e, str) and len(e) > LONGEST for e in row.values()):
            self._closed = True  # texts with what is known of them, and no table
        for name, each in row.items():
            if str(name) != self._label and not is_blank(each):
                column = self._filled.setdefault(str(name), {})
                column[of_class] = column.get(of_class, 0) + 1

    def record(self) -> List[Dict[str, Any]]:
        if self._closed or self.rows < LEAST or len(self._counts) < 2:
            return []
        leaks = []
        for name, filled in self._filled.items():
            full: Set[str] = {c for c, rows in self._counts.items() if filled.get(c, 0) == rows}
            none = {each for each in self._counts if not filled.get(each, 0)}
            sides = [sum(self._counts[each] for each in side) for side in (full, none)]
            if sum(sides) == self.rows and min(sides) >= LEAST_PER_SIDE:
                leaks.append({
                    "type": "Leak", "column": name[:60], "label": str(self._label)[:60],
                    "rows": self.rows, "filled": sides[0],
                })  # fmt: skip
        return leaks

"""Tables without a header, whose first row is read as the names of the columns.

Only counts leave this module: such a name is the content of a row.
"""

from __future__ import annotations

from typing import Any, Dict, List, Set

from ..foreign import Foreign
from .relations import relation

LONG, MOST = 30, 500
"""Characters of a text that is no name, and rows whose values are kept. Our own numbers."""


class RowNames:
    """Values of the columns of a table; `records` says whether their names are a row, too."""

    def __init__(self, of_cells: bool) -> None:
        self._of_cells = of_cells
        self._rows = 0
        self._values: Dict[str, Set[str]] = {}
        self._long: Dict[str, int] = {}
        """Column -> values that are long texts."""

    def add(self, row: Foreign, number: int) -> None:
        if not self._of_cells or self._rows >= MOST:
            return
        self._rows += 1
        for name, value in row.items():
            self._values.setdefault(str(name), set()).add(str(value))
            self._long[str(name)] = self._long.get(str(name), 0) + (len(str(value)) >= LONG)

    def records(self) -> List[Dict[str, Any]]:
        """Where a long text names long texts, and each other short name is a value of its own
        column: a question that names answers has others beside it that are none."""
        texts = [n for n in self._values if len(n) >= LONG and 2 * self._long[n] > self._rows]
        new = all(name not in self._values[name] for name in texts)  # else headers are repeated
        others = [name for name in self._values if name not in texts]
        known = all(name in self._values[name] for name in others)
        asked = not others and any(name.rstrip().endswith(("?", ":")) for name in texts)
        if not texts or not new or not known or asked:
            return []
        return [relation("names are a row", 1, 1)]

"""Tables without a header, whose first row is read as the names of the columns.

Only counts leave this module: such a name is the content of a row.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Set

from ..foreign import Foreign
from .columns import number_of
from .relations import relation

LONG, MOST = 30, 500
"""Characters of a text that is no name, and rows whose values are kept. Our own numbers."""
LEAST, MOSTLY = 8, 0.9
"""Rows that show what a column holds, and their share that is of one type. Our own numbers."""
FILE = re.compile(r"[^\s]*\d[^\s]*(\.[A-Za-z]\w{1,4})")
"""The name of a file with a number in it, and its ending."""


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
        if sum(value == name for name, value in row.items()) > 1:  # see "header in rows"
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
        questions = any(name.rstrip().endswith(("?", ":")) for name in texts)
        asked = not others and questions
        if self._rows >= LEAST and others and new and not questions:
            types = {self._type_of(name) for name in others}
            alone = texts and len(others) == 1
            if "" not in types and (types != {"number"} or alone):
                return [relation("first row is data", 1, 1)]
        if not texts or not new or not known or asked:
            return []
        return [relation("names are a row", 1, 1)]

    def _type_of(self, name: str) -> str:
        """What a name has in common with the values of its column; "" of a name. Numbers alone may
        be names, as years, places of a pixel or wavelengths are."""
        values = self._values[name]
        if number_of(name) is not None:
            alike = sum(number_of(each) is not None for each in values)
            return "number" if alike >= MOSTLY * len(values) else ""
        found = FILE.fullmatch(name)
        if found and sum(each.endswith(found[1]) for each in values) >= MOSTLY * len(values):
            return "file"
        filled = sum(map(bool, map(str.strip, values)))  # an option that was chosen has one value
        return "value" if name.strip() and name in values and filled > 1 and (
            len(self._values) > 1) else ""  # fmt: skip

"""Rows of a table that are separators alone, between others that fill every column.

Only counts and numbers of rows leave this module.
"""

from __future__ import annotations

from typing import Any, Dict, List, Set

from ..foreign import Foreign
from .columns import is_blank
from .relations import relation


class EmptyRows:
    """Counts over the rows of a file; `records` has them."""

    def __init__(self) -> None:
        self._rows: List[int] = []
        self._read = 0
        self._columns: Set[str] = set()
        self._filled: Set[str] = set()

    def add(self, row: Foreign, number: int) -> None:
        self._read += 1
        self._columns.update(map(str, row))
        filled = [str(name) for name, value in row.items() if not is_blank(value)]
        self._filled.update(filled)
        self._rows += [] if filled else [number]

    def records(self) -> List[Dict[str, Any]]:
        """None of one column, nor where a column has no value at all, as of an unlabelled file."""
        if len(self._columns) < 2 or self._columns != self._filled or not self._rows:
            return []
        return [relation("row empty", len(self._rows), self._read, (), self._rows)]

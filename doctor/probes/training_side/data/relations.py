"""Records of what holds between fields, rows, passes and splits, and how often."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

MOST_ROWS, MOST_NAME = 5, 60


class Relations:
    """Counts by kind and fields; `records` has those that hold for some rows."""

    def __init__(self) -> None:
        self._parts: Dict[Tuple[str, Tuple[str, ...]], List[int]] = {}
        self._wholes: Dict[Tuple[str, Tuple[str, ...]], int] = {}

    def count(self, kind: str, holds: bool, row: int, *fields: str) -> None:
        """That it was looked at in a row, and whether it holds there."""
        key = (kind, fields)
        self._wholes[key] = self._wholes.get(key, 0) + 1
        if holds:
            self._parts.setdefault(key, []).append(row)

    def records(self) -> List[Dict[str, Any]]:
        return [
            relation(key[0], len(rows), self._wholes[key], key[1], rows)
            for key, rows in self._parts.items()
        ]


def relation(
    kind: str,
    part: int,
    whole: int,
    fields: Sequence[str] = (),
    rows: Sequence[int] = (),
    numbers: Sequence[float] = (),
) -> Dict[str, Any]:
    """The record Relation."""
    return {
        "type": "Relation",
        "kind": kind,
        "part": int(part),
        "whole": int(whole),
        "fields": [each[:MOST_NAME] for each in fields],
        "rows": [int(each) for each in rows[:MOST_ROWS]],
        "numbers": list(numbers),
    }

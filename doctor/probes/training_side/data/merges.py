"""Tables that pandas joins while the target makes its data: keys that meet several rows on both
sides, keys that meet none, tables that are laid side by side by numbers that differ; and dates that
it sorts as texts."""

from __future__ import annotations

import sys
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..foreign import Foreign, observing, places
from . import dates
from .relations import relation
from .targets import Source

MOST, MOST_ROWS = 64, 2_000_000
LEAST, FEW = 32, 0.01
"""Rows of a table, and the share of them with a partner below which the keys are of two kinds. Our
own
numbers."""


class Merge(NamedTuple):
    """What a join made of two tables."""

    kind: str
    place: str
    keys: Tuple[str, ...]
    left: int
    right: int
    result: int


class Merges:
    """Joins of pandas from now on, where it is imported."""

    def __init__(self) -> None:
        self._found: List[Merge] = []
        self._looking = False
        self._sorted: Optional[dates.Sorted] = None
        inner = sys.modules.get("pandas.core.reshape.merge")
        outer = sys.modules.get("pandas")
        if inner is not None and outer is not None:
            joined = self._watched(inner.merge, self._note_merge)
            inner.merge = outer.merge = joined  # type: ignore[attr-defined]
            self._sorted = dates.Sorted()
            outer.concat = self._watched(outer.concat, self._note_concat)  # type: ignore[attr-defined]

    def _watched(self, function: Callable[..., Any], note: Callable[..., None]) -> Any:
        def call(*arguments: Foreign, **options: Foreign) -> Foreign:
            result = function(*arguments, **options)
            if not self._looking and len(self._found) < MOST:
                self._looking = True  # a look joins tables itself
                observing.attempt(lambda: note(result, *arguments, **options), None)
                self._looking = False
            return result

        return call

    def _note_merge(
        self, result: Foreign, left: Foreign, right: Foreign, how: str = "inner",
        on: Foreign = None, left_on: Foreign = None, right_on: Foreign = None, **options: Foreign
    ) -> None:  # fmt: skip
        indexed = options.get("left_index") or options.get("right_index")
        if indexed or how != "left" or options.get("indicator"):
            return  # an inner join, or a mark of the partners, may look for rows that are in both
        if not LEAST <= len(left) <= MOST_ROWS:
            return
        shared = [name for name in left.columns if name in set(right.columns)]
        ours, theirs = listed(left_on or on or shared), listed(right_on or on or shared)
        if not ours or left is right:
            return
        keys = right[theirs].drop_duplicates()
        met = left[ours].merge(keys, how="left", left_on=ours, right_on=theirs, indicator="doctor_")
        partners = int((met["doctor_"] == "both").sum())
        kind = ""
        if partners < FEW * len(left):
            kind = "merge without partners"
        elif len(result) > len(left) and bool(left[ours].duplicated().any()):
            kind = "merge multiplies"
        if kind:
            self._found.append(Merge(kind, here(), tuple(map(str, ours)), len(left), len(right),
                                     partners if "without" in kind else len(result)))  # fmt: skip

    def _note_concat(self, result: Foreign, objs: Foreign, *, axis: Foreign = 0,
                     **options: Foreign) -> None:  # fmt: skip
        parts = list(objs.values() if isinstance(objs, dict) else objs)
        counts = {len(each) for each in parts}
        whole = all(each.index.dtype.kind in "iu" for each in parts)
        if axis in (1, "columns") and len(counts) == 1 and whole and len(result) > min(counts):
            left = min(counts)
            if left >= LEAST:
                made = Merge("columns beside others", here(), (), left, left, len(result))
                self._found.append(made)

    def records(self, sources: Sequence[Source]) -> List[Dict[str, Any]]:
        """Those that reach the data: rows are multiplied where the splits have more than the table
        before."""
        delivered = sum(each.total or 0 for each in sources)
        dated = self._sorted.records() if self._sorted is not None else []
        return dated + [
            relation(each.kind, 1, 1, (each.place, *each.keys[:2]), (),
                     (each.left, each.right, each.result))
            for each in dict.fromkeys(self._found)
            if each.kind != "merge multiplies" or delivered > each.left
        ]  # fmt: skip


def listed(value: Foreign) -> List[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def here() -> str:
    """ "train.py:15", the line of the user that joins."""
    (place, _), _ = places.innermost()
    return place


def watch() -> Optional[Merges]:
    return observing.attempt(Merges, None)

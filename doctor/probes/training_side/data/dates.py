"""Dates that are sorted as texts, where that is no order in time: 01/02/2023 before 02/01/2022."""

from __future__ import annotations

import functools
import re
import sys
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ..foreign import Foreign, observing
from . import rows
from .file_order import is_sequence
from .relations import relation
from .targets import Source
from .two_splits import unwrapped

LEAST, MOST = 32, 200_000
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DATE = re.compile(r"(\w+)[./\- ,]+(\w+)[./\- ,]+(\w+)(?:[T ].*)?")
Day = Tuple[int, int, int]


class Sorted:
    """Tables that pandas sorts from now on by a column of dates that are texts."""

    def __init__(self) -> None:
        self.found: List[Tuple[str, str, str]] = []
        pandas = sys.modules["pandas"]
        original = pandas.DataFrame.sort_values

        @functools.wraps(original)
        def sort_values(
            frame: Foreign, by: Foreign, *arguments: Foreign, **options: Foreign
        ) -> Foreign:
            result = original(frame, by, *arguments, **options)
            table = frame if options.get("inplace") else result
            observing.attempt(lambda: self._note(table, by), None)
            return result

        pandas.DataFrame.sort_values = sort_values

    def _note(self, table: Foreign, by: Foreign) -> None:
        name = by[-1] if isinstance(by, list) else by
        texts = texts_of(table[name])
        if (isinstance(by, str) or len(by) == 1) and sorted_as_text(texts):
            self.found.append((texts[0], texts[-1], str(name)))

    def records(self) -> List[Dict[str, Any]]:
        return [relation("dates in text order", 1, 1, each) for each in self.found[:1]]


def of_source(source: Source) -> List[Dict[str, Any]]:
    """A record of the first list of dates that the dataset holds, where its rows are steps in
    time."""
    dataset, _ = unwrapped(rows.dataset_of(source))
    for name, texts in held_texts(dataset):
        if sorted_as_text(texts) and is_sequence(source):
            return [relation("dates in text order", 1, 1, (texts[0], texts[1], name))]
    return []


def held_texts(owner: Foreign) -> Iterator[Tuple[str, List[str]]]:
    """Lists, arrays and columns of texts among the attributes of a dataset."""
    for name, value in dict(observing.attribute(owner, "__dict__", {})).items():
        columns: Foreign = observing.attribute(value, "columns")
        if columns is not None:
            for each in list(columns)[:64]:
                yield str(each), texts_of(value[each])
        yield str(name), texts_of(value)


def texts_of(value: Foreign) -> List[str]:
    """Of a list, an array or a column of at least some texts; [] of anything else."""
    kind = str(observing.attribute(value, "dtype", "object"))
    size = observing.attempt(lambda: len(value), 0)
    listed = isinstance(value, (list, tuple)) or observing.has(value, "tolist")
    if not listed or not LEAST <= size <= MOST or not re.match(r"object|str|<U|string", kind):
        return []
    made = value if isinstance(value, (list, tuple)) else value.tolist()
    return list(made) if all(isinstance(each, str) for each in made) else []


def sorted_as_text(texts: List[str]) -> bool:
    """Whether texts are dates in the order of letters, up or down, and not in that of time."""
    if len(texts) < LEAST:
        return False
    up = texts if texts[0] <= texts[-1] else texts[::-1]
    if up != sorted(up):
        return False
    readings = [[day_of(each, day_first) for each in up] for day_first in (True, False)]
    whole = [[day for day in each if day is not None] for each in readings if None not in each]
    return bool(whole) and all(each != sorted(each) for each in whole)


def day_of(text: str, day_first: bool) -> Optional[Day]:
    """Year, month and day; None of what is no date."""
    match = DATE.fullmatch(text.strip())
    parts = [number_of(each) for each in match.groups()] if match else []
    if len(parts) != 3 or any(each is None for each in parts):
        return None
    one, two, three = (each or 0 for each in parts)
    if one > 31:
        year, month, day = one, two, three
    else:
        year, month, day = (three, two, one) if day_first else (three, one, two)
    if match is not None and match[1][:3].lower() in MONTHS:
        year, month, day = three, one, two
    return (year, month, day) if 1 <= month <= 12 and 1 <= day <= 31 and year > 31 else None


def number_of(text: str) -> Optional[int]:
    if text[:3].lower() in MONTHS:
        return MONTHS.index(text[:3].lower()) + 1
    return int(text) if text.isdecimal() and len(text) <= 4 else None

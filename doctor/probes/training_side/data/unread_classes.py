"""Rows without a class, whose text in the dataset names classes that other rows have: it was split
at another character, or compared in another case."""

from __future__ import annotations

import re
from typing import Any, Dict, List, NamedTuple, Set, Tuple

from ..foreign import Foreign, containers, observing
from . import rows
from .given import label_name
from .relations import relation
from .targets import Source, as_batch, size
from .two_splits import unwrapped

MOST_ROWS, LONGEST, LEAST = 512, 200, 8
"""Rows that are read, characters of a text of classes, and rows that show what one means. Our own
numbers."""
APART = re.compile(r"[|,;/+&]")


class Entry(NamedTuple):
    """A text of a row as it is written, the row's classes, and its number."""

    text: str
    classes: Tuple[float, ...]
    number: int

    @property
    def has(self) -> bool:
        return any(self.classes)


def of_source(source: Source) -> List[Dict[str, Any]]:
    dataset, chosen = unwrapped(rows.dataset_of(source))
    numbers = rows.numbers_in(dataset, MOST_ROWS) if chosen is None else ()
    fields: Dict[str, List[Entry]] = {}
    for number in numbers:
        row = held_row(dataset, number)
        target = classes_of(dataset[number])
        if target is None or not row:
            return []
        for name, value in row.items():
            if isinstance(value, str) and 0 < len(value.strip()) <= LONGEST:
                entry = Entry(value.strip(), tuple(target.tolist()), number)
                fields.setdefault(str(name), []).append(entry)
    found = ((name, *unread(each)) for name, each in fields.items())
    return [relation("classes unread", len(r), n, (name,), r) for name, r, n in found if r]


def unread(entries: List[Entry]) -> Tuple[List[int], int]:
    """Rows without a class that name one, and all rows that name one, where the text alone decides
    the classes: a language or a country has rows of several, and rows of none."""
    decided: Dict[str, Tuple[float, ...]] = {}
    if any(decided.setdefault(each.text, each.classes) != each.classes for each in entries):
        return [], 0
    known: Set[str] = {each.text.casefold() for each in entries if each.has}
    telling = sum(each.has for each in entries)
    named = [each for each in entries if known & set(parts_of(each.text.casefold()))]
    lost = [each.number for each in named if not each.has]
    distinct = 2 * len(known) <= telling  # as classes repeat, and titles do not
    return (lost, len(named)) if distinct and min(telling, len(lost)) >= LEAST else ([], 0)


def parts_of(text: str) -> List[str]:
    return [text, *(part.strip() for part in APART.split(text))]


def held_row(dataset: Foreign, number: int) -> Dict[Any, Any]:
    """The row as the dataset holds it, in a list of rows or a table of pandas."""
    for value in dict(observing.attribute(dataset, "__dict__", {})).values():
        if size(value) != size(dataset):
            continue
        if observing.has(value, "iloc") and observing.has(value, "columns"):
            return dict(value.iloc[number].to_dict())
        if isinstance(value, list) and containers.is_mapping(value[number]):
            return dict(value[number])
    return {}


def classes_of(row: Foreign) -> Any:
    """The target of a row with several classes, 0 and 1; None of anything else."""
    batch = as_batch(row)
    named = containers.tensors(batch)
    name = label_name(batch, named)
    target = named[name] if name is not None else None
    if target is None or target.dim() != 2 or not 2 < target.shape[1] <= 1000:
        return None
    return target[0] if bool(((target == 0) | (target == 1)).all()) else None

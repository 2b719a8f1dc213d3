"""The columns by which rows of two splits are compared whose tables are not of one form."""

from __future__ import annotations

from itertools import islice
from typing import FrozenSet, List, Optional

from ..foreign import Foreign, containers, observing
from . import files, rows
from .row_contents import has_text, is_class, kept_of, label_of, row_of
from .targets import Source

HEAD, MOST_FILES = 32, 64
"""Rows of a file, and files of a split, whose columns are looked at. Our own numbers."""

Rows = List[Foreign]


def of_splits(train: Source, other: Source) -> Optional[FrozenSet[str]]:
    """The columns that all files of both splits have, where one has more, or another kind of
    class; None where they are of one form, or have no texts in common that tell rows apart."""
    parts = [each for source in (train, other) for each in heads(source)]
    if len(parts) < 2 or not all(part and all(map(containers.is_mapping, part)) for part in parts):
        return None
    columns = [frozenset(str(name) for row in part for name in row) for part in parts]
    common = frozenset.intersection(*columns)
    unlike = frozenset(name for name in common if len({kind_of(name, p) for p in parts}) > 1)
    if len({*columns}) == 1 and not unlike:
        return None
    common = frozenset(map(str, kept_of(tuple(common - unlike), None, False)))
    return common if all(tell(part, common) for part in parts) else None


def heads(source: Source) -> List[Rows]:
    """The first rows of each file, or of a table."""
    items = source.items
    if isinstance(items, files.Rows):
        each = [files.Rows([path]).again() for path in items.paths[:MOST_FILES]]
    elif observing.has(items, "column_names"):
        each = [rows.values_of(items)]
    else:
        return []
    return [found for found in (list(islice(part, HEAD)) for part in each) if found]


def kind_of(name: str, part: Rows) -> bool:
    """Whether a column is a class in its rows; of those alone that are named as one."""
    named = label_of(tuple(part[0]))[0] == name
    return named and all(row.get(name) is None or is_class(row[name]) for row in part)


def tell(part: Rows, columns: FrozenSet[str]) -> bool:
    """Whether most rows have a text in these columns, and most of them differ: an instruction
    that all rows have says nothing."""
    left = [of(row, columns) for row in part]
    contents = [row_of(row) for row in left if has_text(row)]
    different = {each.content for each in contents if each is not None and each.telling}
    return 2 * len(different) > len(part)


def of(row: Foreign, columns: Optional[FrozenSet[str]]) -> Foreign:
    """The row with these columns alone."""
    if columns is None or not containers.is_mapping(row):
        return row
    return {name: value for name, value in row.items() if name in columns}

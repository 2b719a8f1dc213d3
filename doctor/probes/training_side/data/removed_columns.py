"""Columns of the rows that a Trainer removes, as forward() does not name them, and that the code of
the model reads nevertheless, as from **kwargs."""

from __future__ import annotations

import types
from typing import Any, Dict, Iterator, List, Set

from ..foreign import Foreign, containers, observing
from ..foreign.stack_frames import is_library
from . import rows
from .relations import relation
from .targets import Opened, Source, size
from .views import LABELS


def of_source(opened: Opened, source: Source, batches: List[Foreign]) -> List[Dict[str, Any]]:
    trainer = opened.trainer
    removes = observing.attribute(observing.attribute(trainer, "args"), "remove_unused_columns")
    dataset = rows.dataset_of(source)
    if opened.module is None or not removes or not batches or not size(dataset):
        return []
    first = observing.attribute(trainer, "train_dataset")
    row = (first if size(first) else dataset)[0]
    if not containers.is_mapping(row) or not containers.is_mapping(batches[0]):
        return []
    absent = {str(n) for n in row if n not in batches[0] and n not in LABELS}
    read = {name for code in codes_of(opened) for name in strings_in(code)}
    found = sorted(absent & read)
    return [relation("column removed", 1, 1, found)] if found else []


def codes_of(opened: Opened) -> Iterator[types.CodeType]:
    """What the user wrote of the model, and of how the Trainer computes the loss."""
    assert opened.module is not None
    functions = [type(each).forward for each in opened.module.modules()]
    functions += [observing.attribute(type(opened.trainer), "compute_loss")]
    for each in dict.fromkeys(functions):
        code = observing.code_of(each)
        if code is not None and not is_library(code.co_filename):
            yield code


def strings_in(code: types.CodeType) -> Set[str]:
    """The texts in a function, and in those within it."""
    found: Set[str] = set()
    for each in code.co_consts:
        if isinstance(each, str):
            found.add(each)
        elif isinstance(each, types.CodeType):
            found |= strings_in(each)
    return found

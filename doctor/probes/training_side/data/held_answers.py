"""Spans of answers in tokens, against the texts of the answers that the dataset holds."""

from __future__ import annotations

import re
from typing import Any, Dict, List

from ..foreign import Foreign, containers, observing
from . import rows
from .relations import Relations
from .row_spans import answers_of
from .targets import Source, as_batch, size
from .two_splits import unwrapped
from .vocabulary import Vocabulary

MOST_ROWS = 512
LETTERS = re.compile(r"\w")


def of_source(source: Source, vocabulary: Vocabulary) -> List[Dict[str, Any]]:
    """How often the tokens from start to end are not those of the answer."""
    dataset, _ = unwrapped(rows.dataset_of(source))
    count, relations = size(dataset) or 0, Relations()
    written = held_rows(dataset, count)
    if not written or vocabulary.tokenizer is None:
        return []
    for number in rows.numbers_in(dataset, MOST_ROWS):
        named = containers.tensors(as_batch(dataset[number]))
        if not {"input_ids", "start_positions", "end_positions"} <= set(named):
            return []
        start, end = (int(named[n].reshape(-1)[0]) for n in ("start_positions", "end_positions"))
        answer = next((plain(text) for text, _ in answers_of(dict(written[number]))), "")
        if not answer or start == end == 0 or end < start:
            continue  # not in this row, or see "span reversed"
        tokens = named["input_ids"].reshape(-1)[start : end + 1].tolist()
        found = plain(str(vocabulary.tokenizer.decode(tokens)))
        relations.count("answer of other tokens", not near(found, answer), number)
    return relations.records()


def held_rows(dataset: Foreign, count: int) -> List[Any]:
    """The rows with answers that a dataset was made from, one for each of its own."""
    for value in dict(observing.attribute(dataset, "__dict__", {})).values():
        alike = isinstance(value, list) and len(value) == count and containers.is_mapping(value[0])
        if alike and next(answers_of(dict(value[0])), None) is not None:
            return list(value)
    return []


def plain(text: str) -> str:
    """Letters and digits alone: tokens change case and space."""
    return "".join(LETTERS.findall(text.lower()))


def near(found: str, answer: str) -> bool:
    """A token may be wider than the answer, and a row may end within it."""
    return bool(found) and (answer in found or found in answer)

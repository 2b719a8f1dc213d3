"""The tokenizer that a loader's code holds, where the target names none: in its dataset, its
collator, or the variables of the function that collates."""

from __future__ import annotations

import functools
from typing import Any, Iterator, List

from ..foreign import Foreign, containers, observing
from . import rows
from .targets import Source

DEPTH, MOST = 3, 200
NEEDED = ("eos_token_id", "convert_tokens_to_ids", "decode")


def of_sources(sources: List[Source]) -> Foreign:
    """The one tokenizer that is found; None where there is none, or several."""
    found: List[Any] = []
    for source in sources:
        for start in (observing.attribute(source.items, "collate_fn"), rows.dataset_of(source)):
            for each in within(start):
                found += [each] if not any(each is one for one in found) else []
    return found[0] if len(found) == 1 else None


def within(start: Foreign) -> Iterator[Foreign]:
    left, seen = [(start, 0)], 0
    while left and seen < MOST:
        value, depth = left.pop(0)
        seen += 1
        inner = observing.attribute(value, "tokenizer")
        if all(observing.has(value, name) for name in NEEDED):
            yield value
        elif inner is not None and all(observing.has(inner, name) for name in NEEDED):
            yield inner
        elif depth < DEPTH:
            left += [(each, depth + 1) for each in held(value)]


def held(value: Foreign) -> List[Any]:
    """What an object or a function can reach by its own names."""
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    function = observing.attribute(value, "__func__", value)
    code = observing.code_of(function)
    if code is not None:
        cells = observing.attribute(function, "__closure__") or ()
        named = observing.attribute(function, "__globals__", {})
        held = [observing.attribute(cell, "cell_contents") for cell in cells]
        held += [named[name] for name in code.co_names if name in named]
        owner = observing.attribute(value, "__self__")
        return [each for each in (*held, owner) if not _is_plain(each)]
    fields = observing.attribute(value, "__dict__", {})
    members = list(fields.values()) if containers.is_mapping(fields) else []
    return [each for each in members if not _is_plain(each)]


def _is_plain(value: Foreign) -> bool:
    return value is None or isinstance(value, (str, bytes, int, float, list, tuple, dict, type))

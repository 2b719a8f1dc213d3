"""Values made of other values, with all names and calls within."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from doctor.facts.script import Value

OTHER = Value("other")


def gather(
    kind: Any,
    items: list[Value],
    *,
    extra: Sequence[Value] = (),
    keys: tuple[str, ...] = (),
    name: str = "",
    text: str = "",
) -> Value:
    """A value made of others, with all names and calls within."""
    everything = [*items, *extra]
    names = tuple(dict.fromkeys([n for value in everything for n in value.all_names if n]))
    calls = tuple([c for value in everything for c in value.calls])
    return Value(
        kind, name=name, items=tuple(items), keys=keys, names=names, calls=calls, text=text
    )


def _is_shape(value: Value) -> bool:
    """x.shape, x.shape[-2:] and image.size."""
    while value.kind == "item" and value.items:
        value = value.items[0]
    return value.kind == "name" and value.name.endswith((".shape", ".size"))


def element(value: Value, number: int) -> Value:
    """What a name of a tuple is assigned: the element where the right side is written out."""
    if number < 0:
        return value
    if value.kind == "list" and number < len(value.items):
        return value.items[number]
    if value.kind == "call" or _is_shape(value):
        return Value(
            "item",
            call=value.call,
            names=value.all_names,
            calls=value.calls,
            items=(value, Value("literal", literal=number)),
        )
    return Value("other", names=value.all_names, calls=value.calls)

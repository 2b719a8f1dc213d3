"""The texts of a record, one by one: what a field holds decides what is done with them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec

Kind = Literal["text", "arguments", "product", "identifier", "node"]
Change = Mapping[Kind, Callable[[Any], Any]]
"""For each kind of text a function of a text, for "arguments" one of a tuple of them."""


ARGUMENTS = msgspec.Meta(extra={"kind": "arguments"})
Arguments = Annotated[tuple[str, ...], ARGUMENTS]
"""The words of a command line; text is every string without a kind of its own."""
Product = Annotated[str, msgspec.Meta(extra={"kind": "product"})]
"""The name or the version of hardware or software: it names no person and no machine."""
Identifier = Annotated[str, msgspec.Meta(extra={"kind": "identifier"})]
"""The name of a machine, of a device or of a file, as a system gives it."""
Node = Annotated[str, msgspec.Meta(extra={"kind": "node"})]
"""The name of a machine that the report is about: of a rank, or of a node of a fleet."""


def map_texts(value: object, change: Change, kind: Kind = "text") -> Any:
    """A copy of a record, a tuple, a list or a dict in which every text is changed.

    Values of an enumeration and of a `Literal` stay: they are the doctor's own words.
    """
    if isinstance(value, msgspec.Struct):
        return _struct(value, change)
    if isinstance(value, tuple) and kind == "arguments":
        return change[kind](value)
    if type(value) is str:
        return change[kind](value)
    if isinstance(value, (tuple, list)):
        return type(value)(map_texts(part, change, kind) for part in value) if value else value
    if isinstance(value, Mapping):
        return {
            map_texts(key, change): map_texts(part, change, kind) for key, part in value.items()
        }
    return value


def _struct(value: msgspec.Struct, change: Change) -> object:
    changed = {}
    for name, literals, kind in _fields(type(value)):
        old = getattr(value, name)
        new = old if old.__class__ is str and old in literals else map_texts(old, change, kind)
        if new is not old:
            changed[name] = new
    return msgspec.structs.replace(value, **changed) if changed else value


@functools.cache
def _fields(record: type[msgspec.Struct]) -> tuple[tuple[str, frozenset[str], Kind], ...]:
    """Names of the fields, with the literal texts that each may hold and its kind."""
    return tuple(
        (field.name, _literals(field.type), _kind_of(field.type))
        for field in msgspec.structs.fields(record)
    )


def _literals(annotation: object) -> frozenset[str]:
    literals = [part for part in _parts(annotation) if get_origin(part) is Literal]
    return frozenset(each for part in literals for each in get_args(part) if isinstance(each, str))


def extras(annotation: object) -> Iterator[dict[str, Any]]:
    """What an `Annotated` says of its texts, beside the type."""
    for meta in getattr(annotation, "__metadata__", ()):
        if isinstance(meta, msgspec.Meta) and meta.extra:
            yield meta.extra


def _kind_of(annotation: object) -> Kind:
    for part in _parts(annotation):
        for extra in extras(part):
            if "kind" in extra:
                kind: Kind = extra["kind"]
                return kind
    return "text"


def _parts(annotation: object) -> Iterator[object]:
    """The annotation and those within it, but nothing of another record."""
    yield annotation
    for part in get_args(annotation):
        yield from _parts(part)

"""What the containers, modules and odd tensors of a torch file hold, and under which names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from doctor.checkpoint.formats.torch_tensors import (
    INNER,
    NESTED,
    NESTED_PARTS,
    PLAIN,
    SPARSE,
    SPARSE_ROWS,
    TYPED,
    WRAPPER,
    is_tensor,
)
from doctor.checkpoint.pickle.nodes import Global, ObjectNode, attributes, mapping, state_attributes

HOLDERS = ("_parameters", "_buffers", "_modules")
"""Where a module that was pickled whole keeps what is in it; no part of the names."""

Path: TypeAlias = "tuple[Path, str] | None"


def holds(node: object) -> bool:
    """Whether there is anything in it to look at."""
    kind = type(node)
    return kind is ObjectNode or ((kind is dict or kind is list or kind is tuple) and bool(node))


def children(node: Any, path: Path) -> Iterator[tuple[Any, Path]]:
    """What a container holds, each with its path."""
    kind = type(node)
    if kind is dict:
        for key, value in node.items():
            yield value, (path, _segment(key))
    elif kind is list or kind is tuple:
        for number, value in enumerate(node):
            yield value, (path, str(number))
    elif kind is ObjectNode:
        yield from _held(node, path)


def _held(node: ObjectNode, path: Path) -> Iterator[tuple[object, Path]]:
    """What an object holds: the state of a module, the items of a dictionary, its arguments."""
    if is_tensor(node):
        yield from _in_tensor(node, path)
        return
    state = attributes(node)
    for name in HOLDERS:
        yield state.get(name), path
    for name, value in state.items():
        if name not in HOLDERS:
            yield value, (path, name)
    items = mapping(node)
    for held in (items, node.kwargs, node.appended, node.state if not state else None):
        yield held, path
    if not items or node.items is not None:
        yield node.args, path


def _in_tensor(node: ObjectNode, path: Path) -> Iterator[tuple[object, Path]]:
    """The plain tensors in one of another kind, under names of their own."""
    name, args = node.name, node.args
    if name in TYPED and len(args) > 3:
        function = args[0] if type(args[0]) is Global else Global("", "")
        if function.text != WRAPPER:
            yield ObjectNode(function, args[2] if type(args[2]) is tuple else ()), path
        yield from ((held, (path, each)) for each, held in state_attributes(args[3]).items())
    elif name in INNER:
        yield from ((inner, path) for inner in args[:1])
        yield from ((inner, path) for inner in args[3:4])
    elif name == SPARSE and len(args) == 2 and type(args[1]) is tuple:
        rows = len(args[1]) > 2 and is_tensor(args[1][2])
        names = SPARSE_ROWS if rows else ("indices", "values")
        yield from ((inner, (path, each)) for inner, each in zip(args[1], names, strict=False))
    elif name == NESTED:
        parts = zip(args, NESTED_PARTS, strict=False)
        yield from ((inner, (path, each)) for inner, each in parts)
    elif name not in PLAIN:
        yield args, path


def _segment(key: object) -> str:
    if type(key) is str:
        return key
    return str(key) if type(key) is int else "?"

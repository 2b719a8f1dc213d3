"""Whether two trees differ only where a file was edited."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

Touched = Callable[[ast.AST], bool]


def only_touched(old: ast.AST, new: ast.AST, touched: Touched) -> bool:
    """Whether every difference lies in a node that an edit touches."""
    if type(old) is not type(new):
        return touched(old)
    return all(
        _lists(before, after, old, touched)
        if isinstance(before, list) and isinstance(after, list)
        else only_touched(before, after, touched)
        if isinstance(before, ast.AST) and isinstance(after, ast.AST)
        else before == after or touched(old)
        for before, after in fields_of(old, new)
    )


def fields_of(old: ast.AST, new: ast.AST) -> Iterator[tuple[object, object]]:
    """The fields of two nodes of one kind, side by side."""
    return ((getattr(old, each, None), getattr(new, each, None)) for each in old._fields)


def _lists(
    before: Sequence[object], after: Sequence[object], old: ast.AST, touched: Touched
) -> bool:
    """Lists of one length item by item; inserted items only where the owner is touched."""
    if len(before) == len(after):
        return all(
            only_touched(one, other, touched)
            if isinstance(one, ast.AST) and isinstance(other, ast.AST)
            else one == other or touched(old)
            for one, other in zip(before, after, strict=True)
        )
    if not isinstance(old, ast.Module) and not touched(old):
        return False
    if len(after) < len(before):
        return all(isinstance(one, ast.AST) and touched(one) for one in before)
    rest = iter(after)
    return len(after) > len(before) and all(
        any(_same(one, other, touched) for other in rest) for one in before
    )


def _same(one: object, other: object, touched: Touched) -> bool:
    if isinstance(one, ast.AST) and isinstance(other, ast.AST):
        return type(one) is type(other) and only_touched(one, other, touched)
    return one == other

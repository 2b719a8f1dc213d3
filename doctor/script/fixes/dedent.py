"""The fix that ends an autocast block before backward(): the rest of the block moves out of it."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from itertools import pairwise

from doctor.facts.script import Span
from doctor.script.fixes.differences import fields_of
from doctor.script.fixes.edits import Edit, Module, calls

SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign)
OUTSIDE = frozenset(
    (
        "backward", "scale", "step", "update", "unscale_", "zero_grad", "clip_grad_norm_",
        "clip_grad_value_", "parameters", "item", "detach", "cpu", "append", "print", "len", "log",
        "set_postfix", "set_description", "format", "get_last_lr", "float", "info",
    )
)  # fmt: skip
"""Calls that compute nothing that autocast covers."""


def backward_out_of_autocast(module: Module, span: Span) -> list[Edit] | None:
    """Take one level of indentation from backward() and what follows it in the with block."""
    call = next((node for node in module.at(span) if isinstance(node, ast.Call)), None)
    statement = module.statement(call) if call is not None else None
    block = module.parents.get(statement) if statement is not None else None
    if not isinstance(block, ast.With) or len(block.items) != 1 or statement not in block.body:
        return None
    first = block.body.index(statement)
    tail = block.body[first:]
    if not first or not all(map(_may_move, tail)) or _shares_a_line(block.body[first - 1 :]):
        return None
    return _without_indent(module, block, tail)


def _may_move(statement: ast.stmt) -> bool:
    """A simple statement without text over several lines, whose calls autocast does not cover."""
    if not isinstance(statement, SIMPLE):
        return False
    texts = (n for n in ast.walk(statement) if isinstance(n, ast.Constant | ast.JoinedStr))
    return all(node.lineno == node.end_lineno for node in texts) and all(
        _name(each.func) in OUTSIDE for each in calls(statement)
    )


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _shares_a_line(statements: Sequence[ast.stmt]) -> bool:
    return any((one.end_lineno or 0) >= other.lineno for one, other in pairwise(statements))


def _without_indent(module: Module, block: ast.With, tail: Sequence[ast.stmt]) -> list[Edit] | None:
    outer, inner = module.indent(block.lineno), module.indent(tail[0].lineno)
    if len(inner) <= len(outer) or not inner.startswith(outer):
        return None
    if module.offset(block.lineno, block.col_offset) != module.line_start(block.lineno) + len(
        outer
    ):
        return None
    last = max(statement.end_lineno or 0 for statement in tail)
    edits = []
    for line in range(tail[0].lineno, last + 1):
        if module.source.lines[line - 1].startswith(inner):
            start = module.line_start(line)
            edits.append(Edit(start + len(outer), start + len(inner), b""))
    return edits


def only_moved_out(old: ast.AST, new: ast.AST) -> bool:
    """Whether the trees are equal but for statements that follow the with block they ended."""
    return type(old) is type(new) and all(
        _lists(before, after)
        if isinstance(before, list) and isinstance(after, list)
        else _same(before, after)
        for before, after in fields_of(old, new)
    )


def _lists(before: list[ast.AST], after: list[ast.AST]) -> bool:
    rest = list(after)
    for node in before:
        if not rest:
            return False
        other = rest.pop(0)
        if isinstance(node, ast.With) and isinstance(other, ast.With):
            count = len(other.body)
            moved = node.body[count:]
            followers, rest = rest[: len(moved)], rest[len(moved) :]
            whole = ast.With(node.items, node.body[:count], node.type_comment)
            pairs = [(whole, other), *zip(moved, followers, strict=False)]
            if len(followers) != len(moved) or not all(_same(*pair) for pair in pairs):
                return False
        elif not _same(node, other):
            return False
    return not rest


def _same(one: object, other: object) -> bool:
    if isinstance(one, ast.AST) and isinstance(other, ast.AST):
        return only_moved_out(one, other)
    return one == other

"""Whether the compiler may refuse what the parser accepts: most files need not be compiled."""

from __future__ import annotations
import __future__

import ast

from doctor.script.raising.scopes import COMPREHENSIONS, FUNCTIONS, Names, Scope, enclosing

LOOPS = (ast.For, ast.AsyncFor, ast.While)
RARE = {
    ast.Global, ast.Nonlocal, ast.Await, ast.AsyncFor, ast.AsyncWith, ast.AsyncFunctionDef,
    ast.Match, ast.NamedExpr, ast.TryStar,
}  # fmt: skip
"""Statements and expressions with rules of their own, which the compiler is asked for."""
UNPACKING = (ast.Call, ast.Tuple, ast.List, ast.Set)
ASKED = {
    *RARE, *COMPREHENSIONS, ast.Return, ast.Yield, ast.YieldFrom, ast.Break, ast.Continue, ast.Try,
    ast.ImportFrom, ast.Starred,
}  # fmt: skip


def may_be_refused(tree: ast.Module, names: Names, scopes: list[Scope]) -> bool:
    return (
        _has_late_future(tree)
        or any(_is_repeated(call) for call in names.calls if len(call.keywords) > 1)
        or any(_is_odd(node, names) for node in names.parents if type(node) in ASKED)
        or any(
            len(nodes) > 1 and isinstance(nodes[1], ast.arg)
            for scope in scopes
            for nodes in scope.bindings.values()
        )
    )


def _is_repeated(call: ast.Call) -> bool:
    given = [each.arg for each in call.keywords if each.arg]
    return len(set(given)) < len(given)


def _is_odd(node: ast.AST, names: Names) -> bool:
    if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom | ast.Break | ast.Continue):
        return _is_lost(node, names)
    if isinstance(node, COMPREHENSIONS):
        return any(each.is_async for each in node.generators)
    if isinstance(node, ast.Try):
        return any(each.type is None for each in node.handlers[:-1])
    if isinstance(node, ast.ImportFrom):
        if node.module == "__future__":
            known = all(each.name in __future__.all_feature_names for each in node.names)
            return not known or not isinstance(names.parents[node], ast.Module)
        return node.names[0].name == "*" and not isinstance(names.parents[node], ast.Module)
    if isinstance(node, ast.Starred):
        stored = isinstance(node.ctx, ast.Store)
        return stored or not isinstance(names.parents[node], UNPACKING)
    return True


def _is_lost(node: ast.AST, names: Names) -> bool:
    """A return outside functions, a yield in a comprehension, a break outside loops."""
    wanted = LOOPS if isinstance(node, ast.Break | ast.Continue) else FUNCTIONS
    for around, _ in enclosing(node, names.parents):
        if isinstance(around, wanted):
            return False
        if isinstance(around, (*FUNCTIONS, *COMPREHENSIONS, ast.ClassDef)):
            return True
    return True


def _has_late_future(tree: ast.Module) -> bool:
    """`from __future__ import` behind anything but a docstring and its like."""
    begun = False
    for number, each in enumerate(tree.body):
        of_future = isinstance(each, ast.ImportFrom) and each.module == "__future__"
        if of_future and begun:
            return True
        begun |= not of_future and not (number == 0 and isinstance(each, ast.Expr))
    return False

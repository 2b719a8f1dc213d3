"""Whether a file trains while it is imported, from its syntax alone: nothing of it is run.

Read are the statements that an import executes, and the functions of the file that they call.
"""

from __future__ import annotations

import ast
from typing import Dict, Iterator, List, NamedTuple, Optional, Set, Union

TRAINERS = ("trainer", "learner", "sfttrainer")
"""Endings of names whose `.train()` and `.fit()` train; `model.train()` only sets a mode."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]


class Place(NamedTuple):
    """Where a file trains while it is imported."""

    line: int
    code: str


def trains_on_import(source: Union[str, bytes]) -> Optional[Place]:
    """The first call that trains, of those that an import executes; None if there is none, or the
    file is no Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    functions = {
        each.name: each
        for each in tree.body
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    found = _first(executed(tree.body), functions, trainers_of(tree), set())
    return None if found is None else Place(found.lineno, ast.unparse(found)[:80])


def executed(statements: List[ast.stmt]) -> Iterator[ast.AST]:
    """The nodes that importing these statements executes, in their order."""
    for each in statements:
        if isinstance(each, ast.If) and is_main_guard(each.test):
            yield from executed(each.orelse)
        else:
            yield from _nodes(each)


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, FUNCTIONS):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and is_main_guard(child.test):
            for each in child.orelse:
                yield from _nodes(each)
        else:
            yield from _nodes(child)


def is_main_guard(test: ast.AST) -> bool:
    """__name__ == "__main__", in either order."""
    if not isinstance(test, ast.Compare):
        return False
    sides = (test.left, *test.comparators)
    return any(isinstance(each, ast.Name) and each.id == "__name__" for each in sides)


def trainers_of(tree: ast.AST) -> Set[str]:
    """Names that are assigned an object whose class is called a trainer."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            made = name_of(node.value.func).rpartition(".")[2].casefold()
            if made.endswith(TRAINERS):
                names |= {each.id for each in node.targets if isinstance(each, ast.Name)}
    return names


def name_of(node: ast.AST) -> str:
    """ "a.b.c" of names and attributes, "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = name_of(node.value)
        return inner + "." + node.attr if inner else node.attr
    return ""


def is_training(call: ast.Call, trainers: Set[str]) -> bool:
    """Whether a call computes gradients, or is a trainer's that does."""
    owner, _, attribute = name_of(call.func).rpartition(".")
    if attribute == "backward":
        return isinstance(call.func, ast.Attribute)
    if attribute in ("train", "fit") and isinstance(call.func, ast.Attribute):
        last = owner.rpartition(".")[2]
        return last in trainers or last.casefold().endswith(TRAINERS)
    return False


def _first(
    nodes: Iterator[ast.AST], functions: Dict[str, Function], trainers: Set[str], seen: Set[str]
) -> Optional[ast.Call]:
    """The first training call, also in functions of the file that are called."""
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        if is_training(node, trainers):
            return node
        name = name_of(node.func)
        if name in functions and name not in seen:
            seen.add(name)
            body = functions[name].body
            if _first(executed(body), functions, trainers, seen) is not None:
                return node
    return None

"""Names that are at hand and never read, while one is that differs in a single word."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator

from doctor.facts.script import Raising
from doctor.script.raising.defaults import of_parameters
from doctor.script.raising.scopes import Scope, dotted, last_name
from doctor.script.raising.signatures import Definitions, Position

WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
PART = re.compile(r"tr(?:ai)?n|val|test|dev|eval", re.IGNORECASE)
"""In the name of a part of the data: of no other pairs anything is known."""
PLACES = re.compile(r"(?:dir|path|files?|root|folder)$", re.IGNORECASE)
"""Ends of the names of options that are read to get the data itself."""
ON_PURPOSE = re.compile("overfit|sanity", re.IGNORECASE)
ASKED = {"exists", "isfile", "isdir", "len", "bool"}
COMMON = 4
"""Letters at the end that names of one word share. Our own number."""
MOST = 50
"""Parameters, and names of a test, that are compared. Our own number."""


def counterparts(definitions: Definitions, span: Position) -> Iterator[Raising]:
    """validate(val_loader) that reads train_loader; `if val_dir:` above val_files of train_dir."""
    pairs = (pair for scope in definitions.scopes for pair in _pairs(definitions, scope))
    for scope, use, name in itertools.islice(pairs, MOST):
        if not definitions.is_read_inside(scope, name):
            owner = f"{getattr(scope.node, 'name', '')}()"
            yield Raising("other", use.id, span(use), owner, name)
    for node in definitions.parents:
        if isinstance(node, ast.If):
            around = definitions.parents.get(node)
            if not isinstance(around, ast.If) or around.orelse != [node]:
                yield from _of_test(node, span)


def _pairs(definitions: Definitions, scope: Scope) -> Iterator[tuple[Scope, ast.Name, str]]:
    """Names of the module that a function reads, each with a parameter that it does not read."""
    if not isinstance(scope.node, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    around = definitions.parents.get(scope.node)
    if (isinstance(around, ast.ClassDef) and around.bases) or ON_PURPOSE.search(scope.node.name):
        return
    read = {use.id for use in scope.uses}
    optional = of_parameters(scope.node)
    idle = [
        name
        for name, nodes in scope.bindings.items()
        if len(nodes) == 1
        and isinstance(nodes[0], ast.arg)
        and nodes[0] not in optional
        and name not in read
        and PART.search(name)
    ]
    for use in scope.uses if 0 < len(idle) <= MOST else ():
        if use.id in read and scope.owner(use.id) is definitions.scopes[0]:
            read.discard(use.id)
            yield from ((scope, use, name) for name in idle if _differ_in_one(name, use.id))


def _of_test(node: ast.If, span: Position) -> Iterator[Raising]:
    """`if options.val_dir:` and nothing below reads that, but options.train_dir."""
    tested = {
        dotted(each) for each in _given(node.test)
        if isinstance(each, ast.Attribute)
        and PART.search(each.attr) and PLACES.search(each.attr)
    }  # fmt: skip
    assigned = [each for each in node.body if isinstance(each, ast.Assign)]
    if not assigned or not 0 < len(tested) <= MOST:
        return
    if any(ON_PURPOSE.search(last_name(each)) for each in ast.walk(node.test)):
        return
    tested -= {dotted(each) for arm in node.orelse for each in ast.walk(arm)}
    read = {
        dotted(each): statement
        for statement in node.body
        for each in ast.walk(statement)
        if isinstance(each, ast.Attribute)
    }
    for name in sorted(tested - read.keys() - {""}):
        for text, statement in read.items():
            base, _, last = text.rpartition(".")
            if base != name.rpartition(".")[0] or not isinstance(statement, ast.Assign):
                continue
            if _differ_in_one(last, name.rpartition(".")[2]):
                target = dotted(statement.targets[0])
                yield Raising("other", text, span(statement), target, name)


def _given(test: ast.expr) -> list[ast.expr]:
    """What is there where a test is true: x of `x`, `x is not None`, `exists(x)`."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return [each for value in test.values for each in _given(value)]
    if isinstance(test, ast.Compare):
        return [test.left] if isinstance(test.ops[0], ast.IsNot) else []
    if isinstance(test, ast.Call):
        return test.args if len(test.args) == 1 and last_name(test.func) in ASKED else []
    return [test]


def _differ_in_one(one: str, other: str) -> bool:
    """val_loader and train_loader, valloader and trainloader."""
    first, second = WORDS.findall(one), WORDS.findall(other)
    if len(first) != len(second):
        return False
    unlike = [pair for pair in zip(first, second, strict=True) if pair[0] != pair[1]]
    if len(first) == 1 == len(unlike):
        return one[-COMMON:] == other[-COMMON:]
    return len(unlike) == 1

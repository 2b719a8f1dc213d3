"""Iterators that are read a second time, when they are empty."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from doctor.facts.script import Raising
from doctor.script.raising.branches import Conditions
from doctor.script.raising.scopes import COMPREHENSIONS, FUNCTIONS, Scope, enclosing, last_name
from doctor.script.raising.signatures import Definitions, Position

LOOPS = (ast.For, ast.AsyncFor, ast.While)
MAKERS = {"filter", "map", "zip", "enumerate", "reversed"}
READERS = {"list", "tuple", "set", "dict", "sorted", "sum", "min", "max"}
PASSING = {"enumerate", "zip", "tqdm"}
MOST = 20
"""Uses of one name, and names of one file, that are looked at. Our own number."""


def spent(definitions: Definitions, span: Position) -> Iterator[Raising]:
    """The second reader of pairs = zip(a, b), or its reader in a loop that does not make it."""
    found = _empty(definitions, Conditions(definitions.parents))
    for scope, use, maker in itertools.islice(found, MOST):
        if not definitions.is_read_inside(scope, use.id):
            yield Raising("spent", use.id, span(use), maker)


def _empty(
    definitions: Definitions, conditions: Conditions
) -> Iterator[tuple[Scope, ast.Name, str]]:
    """Readers that find nothing, with what made the iterator."""
    for scope in definitions.scopes:
        made = {
            name: maker
            for name, nodes in scope.bindings.items()
            if len(nodes) == 1 and (maker := _maker(definitions, scope, nodes[0]))
        }
        uses: dict[str, list[ast.Name]] = {}
        for use in scope.uses if made else ():
            if use.id in made:
                uses.setdefault(use.id, []).append(use)
        for name, found in uses.items():
            again = _again(definitions, conditions, scope, found)
            if again is not None:
                yield scope, again, made[name]


def _maker(definitions: Definitions, scope: Scope, node: ast.AST) -> str:
    """zip, where the name is assigned zip(...) of builtins and nothing of parameters."""
    assigned = definitions.parents.get(node)
    if not isinstance(assigned, ast.Assign) or node not in assigned.targets:
        return ""
    call = assigned.value
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        return ""
    builtin = call.func.id in MAKERS and scope.owner(call.func.id) is None
    own = any(
        isinstance(part, ast.Attribute) and part.attr.endswith("parameters")
        for part in ast.walk(call)
    )
    return call.func.id if builtin and not own else ""


def _again(
    definitions: Definitions, conditions: Conditions, scope: Scope, uses: list[ast.Name]
) -> ast.Name | None:
    """The reader that finds nothing, None where any use is of another kind."""
    uses.sort(key=lambda each: (each.lineno, each.col_offset))
    if len(uses) > MOST or not all(_reads(definitions, use) for use in uses):
        return None
    paths = [conditions.path(scope, use) for use in uses]
    for use, path in zip(uses[1:], paths[1:], strict=True):
        before = paths[0]
        if path is not None and before is not None and path[: len(before)] == before:
            return use
    node = scope.bindings[uses[0].id][0]
    own = [around for around, _ in enclosing(node, definitions.parents)]
    for around, part in enclosing(uses[0], definitions.parents):
        if isinstance(around, FUNCTIONS):
            break
        if isinstance(around, LOOPS) and around not in own and part in around.body:
            return uses[0] if not _leaves(around) else None
    return None


def _reads(definitions: Definitions, use: ast.AST) -> bool:
    """It is read to its end: a loop, a comprehension, list(...)."""
    around = definitions.parents.get(use)
    if isinstance(around, ast.For):
        return around.iter is use and not _leaves(around)
    if isinstance(around, COMPREHENSIONS):
        return around.generators[0].iter is use and not isinstance(around, ast.GeneratorExp)
    if not isinstance(around, ast.Call) or use not in around.args:
        return False
    name = last_name(around.func)
    return name in READERS or (name in PASSING and _reads(definitions, around))


def _leaves(loop: ast.AST) -> bool:
    return any(isinstance(node, ast.Break | ast.Return) for node in ast.walk(loop))

"""Attributes that builtin containers and the file's dataclasses do not have."""

from __future__ import annotations

import ast
import collections
import difflib
import re
from collections.abc import Iterator

from doctor.facts.script import Raising
from doctor.script.raising.scopes import Scope
from doctor.script.raising.signatures import Definitions, Position, is_guarded

LITERALS = {ast.Dict: dict, ast.DictComp: dict, ast.List: list, ast.ListComp: list, ast.Set: set,
            ast.SetComp: set}  # fmt: skip
MADE = {"dict": dict, "list": list, "set": set, "defaultdict": collections.defaultdict,
        "OrderedDict": collections.OrderedDict, "Counter": collections.Counter}  # fmt: skip
OF_PYTHON_2 = {"iteritems", "itervalues", "iterkeys", "has_key"}
"""Another rule has them."""
MOST = 20
"""Attributes for which the nearest is looked up. Our own number."""


def lacking(definitions: Definitions, span: Position) -> Iterator[Raising]:
    """The first of each attribute of a name that holds nothing else."""
    fields = _dataclasses(definitions)
    texts = {node.value for node in definitions.parents
             if isinstance(node, ast.Constant) and isinstance(node.value, str)}  # fmt: skip
    reported: set[tuple[Scope, str, str]] = set()
    kinds: dict[tuple[Scope, str], tuple[str, set[str]] | None] = {}
    for scope in definitions.scopes:
        for use in scope.uses:
            node, owner = _read(definitions, use), scope.owner(use.id)
            if node is None or owner is None or isinstance(owner.node, ast.ClassDef):
                continue
            key = (owner, use.id)
            if key not in kinds:
                kinds[key] = _kind(definitions, owner, use.id, fields)
            found = kinds[key]
            if found is None or node.attr in found[1] or node.attr in texts:
                continue
            if (*key, node.attr) in reported or is_guarded(
                node, definitions.parents, "AttributeError"
            ):
                continue
            reported.add((*key, node.attr))
            nearest = _nearest(node.attr, found[1]) if len(reported) < MOST else ""
            yield Raising("held", node.attr, span(node), use.id, nearest, found[0])


def _read(definitions: Definitions, use: ast.Name) -> ast.Attribute | None:
    node = definitions.parents.get(use)
    if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return None
    return None if node.attr.startswith("__") or node.attr in OF_PYTHON_2 else node


def _nearest(attribute: str, known: set[str]) -> str:
    return "".join(difflib.get_close_matches(attribute, sorted(known)[:200], 1, 0.7))


def _kind(
    definitions: Definitions, scope: Scope, name: str, fields: dict[str, set[str]]
) -> tuple[str, set[str]] | None:
    """What a name holds by all that binds it, and the attributes of that."""
    bindings = scope.bindings[name]
    if len(bindings) == 1 and isinstance(bindings[0], ast.arg):
        annotation = bindings[0].annotation
        owner = annotation.id if isinstance(annotation, ast.Name) else ""
        known = fields.get(owner)
        return (owner, known) if known is not None else None
    types = {_made(definitions, scope, each) for each in bindings}
    only = types.pop() if len(types) == 1 else None
    return (only.__name__, set(dir(only))) if only is not None else None


def _made(definitions: Definitions, scope: Scope, binding: ast.AST) -> type | None:
    """The builtin container that a statement assigns to a name."""
    assigned = definitions.parents.get(binding)
    if not isinstance(assigned, ast.Assign | ast.AnnAssign) or assigned.value is None:
        return None
    if isinstance(assigned, ast.Assign) and binding not in assigned.targets:
        return None
    value = assigned.value
    if isinstance(value, ast.Call):
        called = value.func
        name = called.attr if isinstance(called, ast.Attribute) else ""
        module = called.value if isinstance(called, ast.Attribute) else None
        if isinstance(called, ast.Name):
            bound = scope.owner(called.id)
            nodes = bound.bindings[called.id] if bound is not None else []
            builtin = not nodes and called.id in ("dict", "list", "set")
            if builtin or (
                nodes
                and all(isinstance(n, ast.ImportFrom) and n.module == "collections" for n in nodes)
            ):
                name = called.id
        elif not (isinstance(module, ast.Name) and module.id == "collections"):
            return None
        return MADE.get(name)
    return LITERALS.get(type(value))


def _dataclasses(definitions: Definitions) -> dict[str, set[str]]:
    """The attributes of each dataclass that nothing outside of the file adds to."""
    if any(_sets_any(definitions, use) for scope in definitions.scopes for use in scope.uses):
        return {}
    found: dict[str, set[str]] = {}
    for name, owner in definitions.classes.items():
        made = [ast.unparse(each).partition("(")[0] for each in owner.decorator_list]
        bound = definitions.by_scope[owner].bindings.keys()
        whole = made in (["dataclass"], ["dataclasses.dataclass"]) and not owner.bases
        if not whole or name in definitions.extended or "__getattr__" in bound:
            continue
        if not re.search(r"__dict__|__setattr__", ast.unparse(owner)):
            found[name] = {*bound, *definitions.stored, "__dataclass_fields__"}
    return found


def _sets_any(definitions: Definitions, use: ast.Name) -> bool:
    """setattr(args, name, value), vars(args).update(...) and vars(args)[name] = value."""
    call = definitions.parents.get(use)
    around = definitions.parents.get(call) if call is not None else None
    changed = isinstance(around, ast.Subscript) or (
        isinstance(around, ast.Attribute) and around.attr in ("update", "setdefault")
    )
    return use.id == "setattr" or (use.id == "vars" and changed)

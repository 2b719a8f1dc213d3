"""Slips of a character: a comma that makes a tuple, a path that lacks the f of an f-string."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from doctor.facts.script import Raising
from doctor.script.raising.scopes import COMPREHENSIONS, dotted, enclosing, last_name
from doctor.script.raising.signatures import Definitions, Position

SEQUENCES = re.compile(
    r"(?:^|_)(?:shape|size|dim|ax[ei]s|arg|param|input|output|index|indice|tuple|stride|pad|item"
    r"|row|value|result|key)s?(?:_|$)",
    re.IGNORECASE,
)
"""Names of what may be a tuple of one."""
TAKEN = {"len", "tuple", "list", "set", "zip", "enumerate", "map", "sum", "min", "max", "sorted",
         "isinstance", "iter", "dict"}  # fmt: skip
BRACES = re.compile(r"\{([A-Za-z_]\w{0,60})(?:[:!.\[][^{}]{0,60})?\}")
SAVES = re.compile(
    r"(?:torch|th|np|numpy|joblib)\.(?:save|savez|dump)|[\w.]*(?:save_pretrained|savefig|save_image"
    r"|imwrite|save_state)"
)
"""Functions of libraries, which take a path as it is."""
FILLED = {"format", "format_map", "replace", "substitute", "safe_substitute"}
MOST = 20
"""Tuples of one file that are looked at. Our own number."""


def commas(definitions: Definitions, span: Position) -> Iterator[Raising]:
    """`rate = 0.1,`, and nothing reads rate as a sequence."""
    bare = [
        node
        for node in definitions.parents
        if isinstance(node, ast.Tuple) and len(node.elts) == 1 and _is_bare(node)
    ]
    for node in bare[:MOST]:
        target = _target(definitions, node)
        if target is None or _may_be_several(name := last_name(target), node.elts[0]):
            continue
        if not any(_as_sequence(definitions, use) for use in _uses(definitions, target)):
            yield Raising("comma", name, span(definitions.parents[node]))


def _may_be_several(name: str, value: ast.expr) -> bool:
    """__all__, shape, or names = "a"; not names = [...]."""
    plural = name.endswith("s") and isinstance(value, ast.Constant | ast.Name | ast.Attribute)
    return name.startswith("__") or plural or SEQUENCES.search(name) is not None


def plain_paths(definitions: Definitions, span: Position) -> Iterator[Raising]:
    """torch.save(state, "model_{epoch}.pt") in a function that has an epoch."""
    for node in definitions.parents:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "{" in node.value:
            found = BRACES.search(node.value)
            saved = _saved(definitions, node) if found is not None else None
            if found is not None and saved is not None and _is_bound(definitions, node, found[1]):
                yield Raising("brace", found[1], span(node), saved)


def _saved(definitions: Definitions, node: ast.AST) -> str | None:
    """The call that saves to a path of which a text is a part, None where it may be filled."""
    for around, _ in enclosing(node, definitions.parents):
        if isinstance(around, ast.stmt | ast.Dict | ast.JoinedStr | ast.Compare | ast.Lambda):
            return None
        if isinstance(around, ast.Attribute) and around.attr in FILLED:
            return None
        if isinstance(around, ast.BinOp) and isinstance(around.op, ast.Mod):
            return None
        if isinstance(around, ast.Call) and SAVES.fullmatch(
            dotted(around.func) or last_name(around.func)
        ):
            return f"{last_name(around.func)}()"
    return None


def _is_bound(definitions: Definitions, node: ast.AST, name: str) -> bool:
    """The text stands where the name is known."""
    for around, _ in enclosing(node, definitions.parents):
        if around in definitions.by_scope:
            return definitions.by_scope[around].owner(name) is not None
    return name in definitions.scopes[0].bindings


def _is_bare(node: ast.Tuple) -> bool:
    """Without parentheses around it."""
    first = node.elts[0]
    return (node.lineno, node.col_offset) == (first.lineno, first.col_offset)


def _target(definitions: Definitions, node: ast.Tuple) -> ast.expr | None:
    """What it is assigned to, None where a tuple may be meant."""
    assigned = definitions.parents.get(node)
    if isinstance(assigned, ast.AnnAssign) and assigned.value is node:
        if re.search("uple|Sequence|Iterable|Any", ast.unparse(assigned.annotation)):
            return None
        targets: list[ast.expr] = [assigned.target]
    elif isinstance(assigned, ast.Assign) and assigned.value is node:
        targets = assigned.targets
    else:
        return None
    around = definitions.parents.get(assigned)
    if isinstance(around, ast.ClassDef) and any(
        re.search("Enum|Flag", ast.unparse(base)) for base in around.bases
    ):
        return None
    return targets[0] if len(targets) == 1 and last_name(targets[0]) else None


def _uses(definitions: Definitions, target: ast.expr) -> Iterator[ast.AST]:
    """Where the variable, or an attribute of that name, is read."""
    if isinstance(target, ast.Attribute) or isinstance(
        definitions.parents.get(definitions.parents[target]), ast.ClassDef
    ):
        name = last_name(target)
        for node in definitions.parents:
            if isinstance(node, ast.Attribute) and node.attr == name:
                yield node
        return
    bound = [
        scope for scope in definitions.scopes if target in scope.bindings.get(last_name(target), [])
    ]
    for scope in definitions.scopes:
        for use in scope.uses:
            if use.id == last_name(target) and scope.owner(use.id) in bound:
                yield use


def _as_sequence(definitions: Definitions, use: ast.AST) -> bool:
    """It is unpacked, indexed, joined, counted or looped over."""
    around = definitions.parents.get(use)
    if isinstance(around, ast.Subscript | ast.Starred):
        return around.value is use
    if isinstance(around, ast.For | ast.AsyncFor):
        return around.iter is use
    if isinstance(around, COMPREHENSIONS):
        return any(each.iter is use for each in around.generators)
    if isinstance(around, ast.BinOp | ast.AugAssign):
        return isinstance(around.op, ast.Add | ast.Mod)
    if isinstance(around, ast.Call):
        return last_name(around.func) in TAKEN
    if isinstance(around, ast.Assign):
        return isinstance(around.targets[0], ast.Tuple | ast.List)
    return isinstance(around, ast.Compare) and use in around.comparators

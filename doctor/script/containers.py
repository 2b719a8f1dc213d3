"""Objects that a dict or a list holds by a fixed key, as attributes: nets["g"] becomes one name.

Only of containers whose entries are all written out, and that are never used as a whole. A loop
over their values, or over a tuple of names, is written out, too.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from doctor.facts.script import Script, Value
from doctor.script.bodies import clone, within

MARK = "\u02d1"
"""Before the key in the name of such an attribute."""
TRAINED = {"step", "parameters", "backward", "train", "eval", "fit", "state_dict"}
"""One of them is in each file that does something to what it trains."""
MOST_ENTRIES = 6
"""Of a container or a tuple. Our own number."""


def may_hold(script: Script) -> bool:
    """Whether a file that trains has a dict of objects, or a loop over names, written out."""
    if script.identifiers.isdisjoint(TRAINED):
        return False
    dicts = (each.value for each in script.assignments if each.value.kind == "dict")
    lists = (loop.iterable for loop in script.loops if loop.iterable is not None)
    return any(
        {v.kind for v in each.items} == {"call"} and _has_class(script, each) for each in dicts
    ) or any(each.kind == "list" and {v.kind for v in each.items} == {"name"} for each in lists)


def _has_class(script: Script, value: Value) -> bool:
    names = [part for n in value.calls for part in script.calls[n].name.split(".")]
    return any(name[:1].isupper() for name in names)


def spread(tree: ast.Module) -> ast.Module:
    """A copy of the tree without such containers; the tree itself where there are none."""
    found: ast.Module = _Spreader(_containers(tree)).visit(tree)
    return found


def _containers(tree: ast.Module) -> dict[str, tuple[str, ...]]:
    """Keys by the name of a container."""
    made: dict[str, ast.Dict] = {}
    twice: set[str] = set()
    for node in within([tree], ()):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            name = _dotted(node.targets[0])
            if name and isinstance(node.value, ast.Dict) and _holds_objects(node.value):
                twice |= {name} & made.keys()
                made[name] = node.value
    if not made:
        return {}
    found: dict[str, int] = defaultdict(int)
    for node in within([tree], ()):
        if isinstance(node, ast.Name | ast.Attribute) and (name := _dotted(node)) in made:
            found[name] += 1
        for inner in _known_uses(node):
            found[_dotted(inner)] -= 1
    keys = {name: tuple(_key(key) for key in made[name].keys) for name in made}
    return {n: k for n, k in keys.items() if n not in twice and not found[n]}


def _known_uses(node: ast.AST) -> Iterator[ast.expr]:
    """Containers of which this node reads one entry, or all in order, or which it makes."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        yield node.value
    elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
        yield from node.targets[:1]
    elif isinstance(node, ast.For | ast.comprehension) and (values := _values_of(node.iter)):
        yield values


def _values_of(node: ast.expr) -> ast.expr | None:
    """X of X.values() and X.items()."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
        return node.func.value if node.func.attr in ("values", "items") else None
    return None


def _holds_objects(node: ast.Dict) -> bool:
    """Optimizers, networks and the like: something that a class makes."""
    made = all(
        isinstance(value, ast.Call)
        and any(
            isinstance(part, ast.Call) and _dotted(part.func).rpartition(".")[2][:1].isupper()
            for part in _chain(value)
        )
        for value in node.values
    )
    keys = all(isinstance(_key(key), str) and _key(key).isidentifier() for key in node.keys)
    return bool(node.values) and made and keys and len(node.values) <= MOST_ENTRIES


def _chain(node: ast.expr) -> Iterator[ast.expr]:
    """Net().to(device), then Net()."""
    while isinstance(node, ast.Call):
        yield node
        node = node.func.value if isinstance(node.func, ast.Attribute) else node.func


def _key(node: ast.expr | None) -> Any:
    return node.value if isinstance(node, ast.Constant) else ""


def _dotted(node: ast.AST) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


class _Spreader:
    """Copies what changes; everything else is shared with the tree that was given."""

    def __init__(self, containers: dict[str, tuple[str, ...]]) -> None:
        self.containers = containers

    def visit(self, node: Any) -> Any:
        if isinstance(node, ast.Subscript):
            name = _dotted(node.value)
            if name in self.containers and _key(node.slice) in self.containers[name]:
                entry = ast.Attribute(node.value, MARK + _key(node.slice), node.ctx)
                return ast.copy_location(entry, node)
        fields, changed = {}, False
        for name, value in ast.iter_fields(node):
            new = value
            if isinstance(value, list):
                new = self._list(value)
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                new = self.visit(value)
            changed |= new is not value
            fields[name] = new
        return ast.copy_location(type(node)(**fields), node) if changed else node

    def _list(self, nodes: list[object]) -> list[object]:
        result: list[object] = []
        for each in nodes:
            if isinstance(each, ast.stmt) and (written := self._written_out(each)) is not None:
                result += [self.visit(inner) for inner in written]
            else:
                result.append(self.visit(each) if isinstance(each, ast.AST) else each)
        same = len(result) == len(nodes) and all(a is b for a, b in zip(result, nodes, strict=True))
        return nodes if same else result

    def _written_out(self, node: ast.stmt) -> list[ast.stmt] | None:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            return self._entries(node.targets[0], node.value)
        if not isinstance(node, ast.For) or node.orelse or not isinstance(node.target, ast.Name):
            return None
        values = self._elements(node.iter)
        if values is None or _leaves_loop(node.body):
            return None
        return [clone(each, {node.target.id: value}) for value in values for each in node.body]

    def _entries(self, container: ast.expr, made: ast.Dict) -> list[ast.stmt] | None:
        if _dotted(container) not in self.containers:
            return None
        pairs = zip(made.keys, made.values, strict=True)
        targets = [(_entry(container, _key(key), ast.Store()), value) for key, value in pairs]
        return [ast.copy_location(ast.Assign([to], value), value) for to, value in targets]

    def _elements(self, node: ast.expr) -> list[ast.expr] | None:
        if isinstance(node, ast.Tuple | ast.List) and len(node.elts) <= MOST_ENTRIES:
            plain = all(isinstance(each, ast.Name | ast.Attribute) for each in node.elts)
            return node.elts if plain else None
        values = _values_of(node)
        name = _dotted(values) if values is not None else ""
        if name not in self.containers or values is None or _last(node) != "values":
            return None
        return [_entry(values, key, ast.Load()) for key in self.containers[name]]


def _entry(container: ast.expr, key: str, context: ast.expr_context) -> ast.expr:
    return ast.copy_location(ast.Attribute(container, MARK + key, context), container)


def _last(call: ast.expr) -> str:
    function = call.func if isinstance(call, ast.Call) else None
    return function.attr if isinstance(function, ast.Attribute) else ""


def _leaves_loop(body: Sequence[ast.stmt]) -> bool:
    return any(
        isinstance(inner, ast.Break | ast.Continue | ast.Return)
        for each in body
        for inner in within([each], ())
    )

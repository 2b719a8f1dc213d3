"""Layers that nothing calls, while one that is made alike is called in two places."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from doctor.facts.script import Raising
from doctor.script.raising.signatures import Definition, Definitions, Position

WEIGHTED = re.compile(r"Linear|Conv|Norm|Embedding|LSTM|GRU|RNN|Attention|Attn|Dense|Bilinear")
"""Classes of layers with weights: of the others, one serves as well as two."""
Made = dict[str, list[tuple[str, ast.Assign]]]


def twins(definitions: Definitions, span: Position) -> Iterator[Raising]:
    """self.norm1 and self.norm2 made by the same call, one never read, the other called twice."""
    families = [(owner, _alike(definitions, owner)) for owner in definitions.classes.values()]
    if not any(made for _, made in families):
        return
    read = Counter(
        node.attr if isinstance(node, ast.Attribute) else node.value
        for node in definitions.parents
        if (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load))
        or (isinstance(node, ast.Constant) and isinstance(node.value, str))
    )
    for owner, made in families:
        called = _called_twice(owner) if made and owner.name not in definitions.extended else {}
        for alike in made.values():
            busy = [name for name, _ in alike if name in called]
            idle = [(name, node) for name, node in alike if not read[name]]
            for name, node in idle if len(busy) == 1 else ():
                yield Raising("twin", name, span(node), owner.name, busy[0], called[busy[0]])


def _alike(definitions: Definitions, owner: ast.ClassDef) -> Made:
    """Layers of a module by the text of the call that makes them, where several have the same."""
    method = definitions.method(owner, "__init__")
    found: Made = defaultdict(list)
    for node in method.body if method is not None else ():
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        target = node.targets[0]
        own = isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self"
        if own and len(node.targets) == 1 and WEIGHTED.search(ast.unparse(node.value.func)):
            found[ast.unparse(node.value)].append((target.attr, node))  # type: ignore[attr-defined]
    return {text: held for text, held in found.items() if len({n for n, _ in held}) > 1}


def _called_twice(owner: ast.ClassDef) -> dict[str, str]:
    """self.norm of self.norm(x) in two places of one method, with its name."""
    found: dict[str, str] = {}
    for method in owner.body:
        if not isinstance(method, Definition) or method.name == "__init__":
            continue
        counts = Counter(
            node.func.attr
            for node in ast.walk(method)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "self"
        )
        found |= {name: method.name for name, count in counts.items() if count > 1}
    return found

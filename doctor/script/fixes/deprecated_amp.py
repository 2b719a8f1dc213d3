"""torch.cuda.amp and torch.cpu.amp to torch.amp: the import and every use of what it binds."""

from __future__ import annotations

import ast

from doctor.facts.script import Span
from doctor.script.fixes.edits import Edit, Module

MOVED = ("autocast", "GradScaler", "custom_fwd", "custom_bwd")
"""What torch.amp has instead."""
POSITIONAL = {"autocast": ("enabled", "dtype", "cache_enabled")}
"""The old signature: arguments that move behind the device become keywords."""
DEVICES = {"torch.cuda.amp": "cuda", "torch.cpu.amp": "cpu"}


def fix(module: Module, span: Span) -> list[Edit] | None:
    """Edits for an import or a dotted use."""
    for node in module.at(span):
        if isinstance(node, ast.alias):
            return _import(module, node)
        if isinstance(node, ast.Attribute):
            return _dotted(module, node)
    return None


def _import(module: Module, alias: ast.alias) -> list[Edit] | None:
    statement = module.parents.get(alias)
    if not isinstance(statement, ast.ImportFrom) or statement.module not in DEVICES:
        return None
    if any(each.name not in MOVED for each in statement.names):
        return None
    device = DEVICES[statement.module]
    start = module.start(statement)
    text = module.text(statement)
    place = text.find(statement.module)
    if place < 0:
        return None
    offset = start + len(module.encode(text[:place]))
    edits = [Edit(offset, offset + len(statement.module), b"torch.amp")]
    for each in statement.names:
        used = _uses(module, each.asname or each.name, each.name, device)
        if used is None:
            return None
        edits += used
    return edits


def _uses(module: Module, bound: str, name: str, device: str) -> list[Edit] | None:
    """Edits of all uses of a name, None where one is neither a call nor a decorator."""
    edits: list[Edit] = []
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Name) and node.id == bound:
            if not isinstance(node.ctx, ast.Load):
                return None
            part = _use(module, node, name, device)
            if part is None:
                return None
            edits += part
        elif isinstance(node, ast.Constant) and node.value == bound:
            return None
    return edits


def _use(module: Module, node: ast.expr, name: str, device: str) -> list[Edit] | None:
    parent = module.parents.get(node)
    if isinstance(parent, ast.Call) and parent.func is node:
        return _arguments(module, parent, name, device)
    decorates = isinstance(parent, ast.FunctionDef) and node in parent.decorator_list
    if decorates and name.startswith("custom_"):
        return [module.insert(module.end(node), f'(device_type="{device}")')]
    if isinstance(parent, ast.arg) or _is_annotation(parent, node):
        return []
    return None


def _is_annotation(parent: ast.AST | None, node: ast.expr) -> bool:
    if isinstance(parent, ast.AnnAssign):
        return parent.annotation is node
    return isinstance(parent, ast.Call) and ast.unparse(parent.func) == "isinstance"


def _arguments(module: Module, call: ast.Call, name: str, device: str) -> list[Edit] | None:
    """The device first; positional arguments that shift become keywords."""
    if any(isinstance(each, ast.Starred) for each in call.args):
        return None
    if name.startswith("custom_"):
        if call.args:
            return None
        after = module.end(call.func)
        opening = module.data.find(b"(", after) + 1
        return [module.insert(opening, f'device_type="{device}"' + ", " * bool(call.keywords))]
    edits = []
    for number, argument in enumerate(call.args if name == "autocast" else ()):
        if number >= len(POSITIONAL[name]):
            return None
        edits.append(module.insert(module.start(argument), f"{POSITIONAL[name][number]}="))
    opening = module.data.find(b"(", module.end(call.func)) + 1
    present = bool(call.args or call.keywords)
    first = module.insert(opening, f'"{device}"' + ", " * present)
    if edits and edits[0].start == opening:
        edits[0] = module.insert(opening, (first.text + edits[0].text).decode())
        return edits
    return [first, *edits]


def _dotted(module: Module, node: ast.Attribute) -> list[Edit] | None:
    text = module.text(node)
    owner = text.rpartition(".")[0]
    if owner not in DEVICES or node.attr not in MOVED:
        return None
    used = _use(module, node, node.attr, DEVICES[owner])
    if used is None:
        return None
    return [module.replace(node.value, "torch.amp"), *used]

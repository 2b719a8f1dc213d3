"""Attributes of an object's own that its class sets nowhere."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator

from doctor.facts.script import Raising
from doctor.script.raising.signatures import Definition, Definitions, Position

PLAIN = {"object", "Dataset", "IterableDataset", "Sampler"}
MODULES = {"Module"}
OF_MODULE = {
    "training", "forward", "train", "eval", "parameters", "named_parameters", "buffers",
    "named_buffers", "children", "named_children", "modules", "named_modules", "state_dict",
    "load_state_dict", "register_buffer", "register_parameter", "register_module", "add_module",
    "apply", "cuda", "cpu", "to", "type", "float", "double", "half", "bfloat16", "requires_grad_",
    "zero_grad", "share_memory", "get_parameter", "get_buffer", "get_submodule", "set_submodule",
    "extra_repr", "register_forward_hook", "register_forward_pre_hook", "register_backward_hook",
    "register_full_backward_hook", "register_full_backward_pre_hook", "compile", "to_empty", "ipu",
    "xpu", "mtia", "get_extra_state", "set_extra_state", "dump_patches", "call_super_init",
    "T_destination",
    "register_state_dict_pre_hook", "register_state_dict_post_hook", "named_members",
    "register_load_state_dict_post_hook", "register_load_state_dict_pre_hook",
}  # fmt: skip
OPEN = ("Mixin", "Base", "Abstract")
DYNAMIC = {"setattr", "__dict__", "__getattr__", "__getattribute__", "__setattr__", "update",
           "NotImplementedError", "abstractmethod", "ABC"}  # fmt: skip


def unset(definitions: Definitions, tree: ast.Module, span: Position) -> Iterator[Raising]:
    """The first use of each."""
    stored = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
    }
    texts = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    for owner in definitions.classes.values():
        family = _family(definitions, owner)
        if family is None or any(_is_open(each) for each in family):
            continue
        if owner.name in definitions.extended or owner.name.startswith(OPEN):
            continue
        known = stored | texts | _defined(definitions, family)
        yield from _missing(owner, known, span)


def _family(definitions: Definitions, owner: ast.ClassDef) -> list[ast.ClassDef] | None:
    """The class and those of the file that it extends, None where another file has one."""
    found, waiting = [owner], [*owner.bases]
    if owner.keywords or owner.decorator_list or definitions.method(owner, "__init__") is None:
        return None
    while waiting:
        text = ast.unparse(waiting.pop())
        name = text.rpartition(".")[2]
        base = definitions.classes.get(text)
        if base is None and name in PLAIN | MODULES and _is_of_torch(definitions, text):
            continue
        if base is None or base.keywords or base in found:
            return None
        found.append(base)
        waiting += base.bases
    return found


def _is_of_torch(definitions: Definitions, text: str) -> bool:
    """nn.Module and object, and Module where it is imported from torch."""
    root = text.partition(".")[0]
    bindings = definitions.scopes[0].bindings.get(root, [])
    return text == "object" or any(
        (isinstance(each, ast.ImportFrom) and str(each.module).partition(".")[0] == "torch")
        or (isinstance(each, ast.Import) and any(n.name.startswith("torch") for n in each.names))
        for each in bindings
    )


def _is_open(owner: ast.ClassDef) -> bool:
    return any(
        (isinstance(node, ast.Name) and node.id in DYNAMIC)
        or (isinstance(node, ast.Attribute) and node.attr in DYNAMIC - {"update"})
        or (isinstance(node, ast.FunctionDef) and node.name in DYNAMIC)
        for node in ast.walk(owner)
    )


def _defined(definitions: Definitions, family: list[ast.ClassDef]) -> set[str]:
    names = set(dir(object)) | {"__dict__", "__slots__", "__annotations__", "__module__"}
    for owner in family:
        names |= definitions.by_scope[owner].bindings.keys()
        bases = {ast.unparse(base).rpartition(".")[2] for base in owner.bases}
        if bases & MODULES:
            names |= OF_MODULE
        if "Sampler" in bases:
            names.add("data_source")
    return names


def _missing(owner: ast.ClassDef, known: set[str], span: Position) -> Iterator[Raising]:
    reported: set[str] = set()
    for method in owner.body:
        if not isinstance(method, Definition) or not method.args.args:
            continue
        if method.args.args[0].arg != "self":
            continue
        for node in ast.walk(method):
            if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
                continue
            own = isinstance(node.value, ast.Name) and node.value.id == "self"
            name = node.attr
            if not own or name in known | reported or name.startswith("_"):
                continue
            reported.add(name)
            nearest = "".join(difflib.get_close_matches(name, sorted(known), 1, 0.75))
            yield Raising("attribute", name, span(node), owner.name, nearest)

"""Attributes of an object's own that its class sets nowhere."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator

from doctor.facts.script import Raising
from doctor.script.parts import parts_of
from doctor.script.raising.scopes import FUNCTIONS
from doctor.script.raising.signatures import Definition, Definitions, Position, is_guarded

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
REGISTER = {"add_module", "register_module", "register_buffer", "register_parameter"}
OPEN = ("Mixin", "Base", "Abstract")
DYNAMIC = {"setattr", "__dict__", "__getattr__", "__getattribute__", "__setattr__", "update",
           "NotImplementedError", "abstractmethod", "ABC", "vars", "hasattr", "locals", "getattr",
           "store_attr", "save_hyperparameters", "auto_assign"}  # fmt: skip


def unset(definitions: Definitions, span: Position) -> Iterator[Raising]:
    """The first use of each."""
    families = [
        (owner, family)
        for owner in definitions.classes.values()
        for family in [_family(definitions, owner)]
        if family is not None
    ]
    if not families or _sets_any(definitions):
        return
    texts = {
        node.value
        for node in definitions.parents
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    for owner, family in families:
        if any(_is_open(definitions, each) for each in family):
            continue
        if owner.name in definitions.extended or any(word in owner.name for word in OPEN):
            continue
        known = definitions.stored | texts | _defined(definitions, family)
        yield from _missing(definitions, owner, known, span)


def _sets_any(definitions: Definitions) -> bool:
    """setattr() anywhere in the file: any attribute may be set."""
    return any(use.id == "setattr" for scope in definitions.scopes for use in scope.uses)


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


def _is_open(definitions: Definitions, owner: ast.ClassDef) -> bool:
    """Attributes may be set by a text, or by a function that gets the object."""
    if owner not in definitions.open:
        definitions.open[owner] = any(
            (isinstance(node, ast.Name) and node.id in DYNAMIC)
            or (isinstance(node, ast.Attribute) and node.attr in DYNAMIC - {"update"})
            or (isinstance(node, ast.FunctionDef) and node.name in DYNAMIC)
            or (isinstance(node, ast.Call) and _hands_over(node))
            for node in ast.walk(owner)
        )
    return definitions.open[owner]


def _hands_over(call: ast.Call) -> bool:
    """f(self), and register_buffer(name) of a name that is not written out."""
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if method in REGISTER and call.args and not isinstance(call.args[0], ast.Constant):
        return True
    values = [*call.args, *(each.value for each in call.keywords)]
    whole = any(isinstance(each, ast.Name) and each.id == "self" for each in values)
    harmless = isinstance(call.func, ast.Name) and call.func.id in ("super", "isinstance", "type")
    return whole and not harmless and method != "__init__"


def _defined(definitions: Definitions, family: list[ast.ClassDef]) -> set[str]:
    names = set(dir(object)) | {"__dict__", "__slots__", "__annotations__", "__module__"}
    for owner in family:
        names |= definitions.by_scope[owner].bindings.keys()
        bases = {ast.unparse(base).rpartition(".")[2] for base in owner.bases}
        if bases & MODULES:
            names |= OF_MODULE
        if bases & {"Dataset", "IterableDataset"}:
            names |= {"functions", "register_function", "register_datapipe_as_function"}
        if "Sampler" in bases:
            names.add("data_source")
    return names


def _missing(
    definitions: Definitions, owner: ast.ClassDef, known: set[str], span: Position
) -> Iterator[Raising]:
    reported: set[str] = set()
    for method in owner.body:
        if not isinstance(method, Definition) or not method.args.args:
            continue
        if method.args.args[0].arg != "self":
            continue
        for node in _within(method):
            if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
                continue
            own = isinstance(node.value, ast.Name) and node.value.id == "self"
            name = node.attr
            if not own or name in known | reported or name.startswith("_"):
                continue
            if is_guarded(node, definitions.parents, "AttributeError"):
                continue
            reported.add(name)
            nearest = "".join(difflib.get_close_matches(name, sorted(known), 1, 0.75))
            around = definitions.parents.get(node)
            called = isinstance(around, ast.Call) and around.func is node
            expected = "call" if called else "value"
            yield Raising("attribute", name, span(node), owner.name, nearest, expected)


def _within(method: Definition) -> Iterator[ast.AST]:
    """The nodes of a method in which self is its own: classes inside have another."""
    waiting: list[ast.AST] = [*method.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ClassDef):
            continue
        if isinstance(node, FUNCTIONS) and any(each.arg == "self" for each in node.args.args):
            continue
        yield node
        waiting += reversed(parts_of(node))

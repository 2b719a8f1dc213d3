"""What the two parameters of a user's loss stand for, told by their names, annotations and use."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import List, Optional, Set, Tuple

import torch

from ..foreign import Foreign, Function, observing

MODULE, OUTPUT, BATCH, TARGET = "module", "output", "batch", "target"
NAMES = {
    MODULE: ("model", "module", "net", "network"),
    OUTPUT: (
        *("o", "out", "output", "outputs", "logit", "logits", "pred", "preds", "prediction"),
        *("predictions", "scores", "yhat", "y_hat", "y_pred", "recon", "reconstruction", "x_hat"),
    ),
    BATCH: ("b", "batch", "data", "sample", "samples", "minibatch", "inputs"),
    TARGET: ("labels", "label", "targets", "target", "y", "y_true", "gt"),
}
OF_TENSORS = frozenset(dir(torch.Tensor)) | frozenset(dir(dict)) | frozenset(dir(list))
OF_MODULES = frozenset(dir(torch.nn.Module)) | {"weight", "bias"}
MOST_CALLS = 4
"""Functions that are followed where a loss only passes its parameters on."""


def form_of(loss: Function) -> Tuple[str, str]:
    """(MODULE or OUTPUT, BATCH or TARGET) of a function that can be called with two arguments."""
    names = positional(loss)
    if names is None or len(names) < 2 or len(required(loss)) > 2:
        return MODULE, BATCH
    second = _named(names[1], (BATCH, TARGET)) or _used_second(loss, names[1])
    first = _named(names[0], (MODULE, OUTPUT)) or _used_first(loss, 0, MOST_CALLS)
    return first or (OUTPUT if second == TARGET else MODULE), second or TARGET


def positional(function: Function) -> Optional[List[str]]:
    """Names of the parameters that a call by place fills; None where no signature is known."""
    parameters = _by_place(function)
    return None if parameters is None else [each.name for each in parameters]


def required(function: Function) -> List[str]:
    """Those of them that have no default."""
    parameters = _by_place(function) or ()
    return [each.name for each in parameters if each.default is inspect.Parameter.empty]


def _by_place(function: Function) -> Optional[List[inspect.Parameter]]:
    try:
        parameters = inspect.signature(_plain(function)).parameters.values()
    except (TypeError, ValueError):  # a builtin
        return None
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [each for each in parameters if each.kind in by_place]


def _plain(function: Function) -> Function:
    """The function or method that a call runs."""
    if isinstance(function, torch.nn.Module):
        return function.forward
    if inspect.isroutine(function) or inspect.isclass(function):
        return function
    called: Function = observing.attribute(function, "__call__", function)
    return called


def _named(name: str, kinds: Tuple[str, ...]) -> str:
    return next((kind for kind in kinds if name in NAMES[kind]), "")


def _used_first(function: Function, place: int, calls: int) -> str:
    """Whether a parameter is a module, which is called, or an output, which is computed with."""
    names = positional(function)
    if not names or len(names) <= place or calls == 0:
        return ""
    name = names[place]
    annotation = str(inspect.signature(_plain(function)).parameters[name].annotation)
    if "Module" in annotation or "Tensor" in annotation:
        return MODULE if "Module" in annotation else OUTPUT
    tree = syntax(function, name)
    if tree is None:
        return ""
    kinds: Set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            kinds.add(_in_call(node, name, function, calls))
        elif isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript, ast.Assign)):
            children = list(ast.iter_child_nodes(node))
            kinds.add(OUTPUT if any(_is(each, name) for each in children) else "")
    return MODULE if MODULE in kinds else OUTPUT if OUTPUT in kinds else ""


def _in_call(call: ast.Call, name: str, function: Function, calls: int) -> str:
    """What one call says of a parameter."""
    if _is(call.func, name) or _is_part(call.func, name):
        return MODULE
    if isinstance(call.func, ast.Attribute) and _is(call.func.value, name):
        return OUTPUT if call.func.attr in OF_TENSORS else MODULE
    for each in call.args:
        if isinstance(each, ast.Attribute) and _is(each.value, name):  # F.mse_loss(output.x, ...)
            return MODULE if each.attr in OF_MODULES else OUTPUT
    place = next((n for n, each in enumerate(call.args) if _is(each, name)), None)
    if place is None:
        return ""
    called = _value(call.func, function)
    home = observing.attribute(called, "__module__", "") or ""
    if home.startswith("torch") or isinstance(called, torch.nn.Module):
        return OUTPUT
    return _used_first(called, place, calls - 1) if inspect.isfunction(called) else ""


def _used_second(function: Function, name: str) -> str:
    """BATCH of a parameter that is taken apart: batch["y"], batch[1], _, y = batch."""
    tree = syntax(function, name)
    nodes = ast.walk(tree) if tree is not None else ()
    return BATCH if any(_takes_apart(node, name) for node in nodes) else ""


def _takes_apart(node: ast.AST, name: str) -> bool:
    if not _is(getattr(node, "value", None), name):
        return False
    if isinstance(node, ast.Assign):
        return isinstance(node.targets[0], (ast.Tuple, ast.List))
    if isinstance(node, ast.Subscript):
        return isinstance(getattr(node.slice, "value", None), (str, int))
    if isinstance(node, ast.Attribute):
        return node.attr not in OF_TENSORS or node.attr in ("get", "items", "keys")
    return isinstance(node, ast.Starred) or (isinstance(node, ast.keyword) and node.arg is None)


def syntax(function: Function, parameter: str) -> Optional[ast.AST]:
    """The function or lambda with this parameter in the source of a function; None without it."""
    try:
        source = textwrap.dedent(inspect.getsource(_plain(function)))
        tree = ast.parse(source)
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    fitting = [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.Lambda))
        and any(each.arg == parameter for each in node.args.args)
    ]
    if not fitting or (isinstance(fitting[0], ast.Lambda) and len(fitting) > 1):
        return None  # which of the lambdas in a line it is, the line does not say
    return fitting[0]


def _is_part(node: ast.AST, name: str) -> bool:
    """networks["actor"] of a ModuleDict."""
    return isinstance(node, ast.Subscript) and _is(node.value, name)


def _is(node: Optional[ast.AST], name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _value(node: ast.AST, function: Function) -> Foreign:
    """What a dotted name stands for among the variables around the function."""
    if isinstance(node, ast.Attribute):
        return observing.attribute(_value(node.value, function), node.attr)
    if not isinstance(node, ast.Name):
        return None
    plain = inspect.unwrap(_plain(function))
    if node.id == "self":
        return observing.attribute(plain, "__self__")
    variables = observing.attempt(lambda: inspect.getclosurevars(plain), None)
    if variables is None:
        return None
    return variables.nonlocals.get(node.id, variables.globals.get(node.id))

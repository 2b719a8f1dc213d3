"""A graph that backward() goes through a second time: the user's own calls of backward(), and what
holds a tensor of an earlier step.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from typing import Any, Dict, Iterator, List, Optional, Tuple

import torch
from torch.overrides import TorchFunctionMode

from ..foreign import containers, graphs, observing, places
from ..gradients import gradient_hooks
from ..subject import training_step, unregistered
from ..values import value_origins

MOST, DEPTH = 3, 3
"""Names in a text; containers and objects inside of one another that are looked into."""
TABLES = ("_forward_hooks", "_forward_pre_hooks")
"""Hooks of a module."""


class Backwards(TorchFunctionMode):
    """The user's lines that call backward()."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: List[Dict[str, str]] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        if observing.function_name(func) == "backward":
            place, code = places.innermost()[0]
            self.lines.append({"place": place, "code": code})
        return func(*args, **(kwargs or {}))


class Losses:
    """The losses of one step of the user's own, each with its call of backward(), which no function
    mode sees where the steps are manual ones of Lightning."""

    def __init__(self) -> None:
        self._original: Any = torch.autograd.backward
        self._nodes: List[Any] = []
        self._variables: Dict[str, Any] = {}
        self._line: Dict[str, str] = {}

    def __enter__(self) -> None:
        def backward(loss: Any, *arguments: Any, **options: Any) -> None:
            observing.attempt(lambda: self._note(loss), None)
            self._original(loss, *arguments, **options)

        torch.autograd.backward = backward  # type: ignore[assignment]

    def __exit__(self, *error: Any) -> None:
        torch.autograd.backward = self._original

    def _note(self, loss: torch.Tensor) -> None:
        self._nodes.append(set(graphs.nodes(loss.grad_fn)))
        frame = places.user_frame()
        if frame is not None:
            place, code = places.line(frame)
            self._line = {"place": place, "code": code}
            variables = containers.tensors(dict(frame.f_locals)).items()
            self._variables = {name: each.grad_fn for name, each in variables}

    def shared(self, error: BaseException) -> List[Dict[str, Any]]:
        """What the loss that raised was computed from, and one before it too."""
        if "a second time" not in str(error) or len(self._nodes) < 2 or not self._line:
            return []
        both = self._nodes[-1] & set().union(*self._nodes[:-1])
        names = {name: node for name, node in self._variables.items() if node in both}
        inner = {
            name
            for name, node in names.items()
            for other in names.values()
            if other is not node and node in set(graphs.nodes(other))
        }
        shared = [name for name in names if name not in inner][:MOST]
        return [{"type": "BackwardCall", "line": self._line, "shared": shared}]


def twice(training: Any) -> List[Dict[str, Any]]:
    """The user's own call of backward(), and what is kept of a step with its graph."""
    subject = training.subject
    records: List[Dict[str, Any]] = []
    of_module = unregistered.graphs_in(subject.module)
    of_training = {**of_module, **dict(around(subject))}
    parts = containers.tensors(subject.batch).items()
    of_batch = unregistered.with_nodes({value_origins.in_batch(n): each for n, each in parts})
    calls = Backwards()
    try:
        with calls:
            loss = training_step.loss_of(training)
    except RuntimeError:  # a second backward pass of the user's own
        loss = None
    within = set(graphs.nodes(loss.grad_fn)) if loss is not None else set()
    for where, kept in (("batch", of_batch), ("training", of_training)):
        names = [name for name, each in kept.items() if not within or each in within]
        if names:
            after = unregistered.graphs_in(subject.module)
            same = all(name in of_module and after.get(name) is kept[name] for name in names)
            where = "once" if same else where
            records.append({"type": "KeptGraph", "names": names[:MOST], "where": where})
    if calls.lines:
        records.append({"type": "BackwardCall", "line": calls.lines[0]})
    return records


# What holds tensors


def around(subject: Any) -> Iterator[Tuple[str, Any]]:
    """Name -> operation of the tensors with a graph that the functions of a training hold: in
    closures, default arguments, globals, classes, and attributes of what these hold."""
    visited: Dict[int, Any] = {}
    for kind in classes(subject.module):
        for name, value in vars(kind).items():
            yield from graphs_of("%s.%s" % (kind.__name__, name), value, visited)
    for function in functions(subject):
        for name, value in held_by(function).items():
            if isinstance(value, types.FunctionType):
                for inner, each in held_by(value).items():
                    yield from graphs_of(inner, each, visited)
            else:
                yield from graphs_of(name, value, visited)


def functions(subject: Any) -> Iterator[Any]:
    """The loss, the methods of the model's modules, and their hooks."""
    yield subject.loss
    for kind in classes(subject.module):
        yield from (each for each in vars(kind).values() if isinstance(each, types.FunctionType))
    for part in subject.module.modules():
        for table in TABLES:
            yield from getattr(part, table, {}).values()


def classes(module: torch.nn.Module) -> List[type]:
    """The classes of the model's modules that are the user's."""
    return [k for k in dict.fromkeys(type(each) for each in module.modules()) if of_user(k)]


def of_user(kind: type) -> bool:
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return kind.__module__ != "builtins" and not (file and places.of_library(file))


def held_by(function: Any) -> Dict[str, Any]:
    """Name -> value of the variables that a function holds beside its arguments."""
    held: Dict[str, Any] = {}
    while isinstance(function, functools.partial):
        held.update(function.keywords)
        held.update(("argument %d" % n, each) for n, each in enumerate(function.args))
        function = function.func
    owner = observing.attribute(function, "__self__")
    if owner is not None and not isinstance(owner, types.ModuleType):
        held[type(owner).__name__] = owner
    elif not inspect.isroutine(function):
        held[type(function).__name__] = function
    function = observing.attribute(function, "__func__", function)
    code, defaults = observing.code_of(function), observing.attribute(function, "__defaults__")
    if code is not None and defaults:
        names = code.co_varnames[: code.co_argcount][-len(defaults) :]
        held.update(zip(names, defaults))
    if code is not None:
        held.update(observing.attribute(function, "__kwdefaults__") or {})
    if code is not None and not places.of_library(code.co_filename):
        held.update(gradient_hooks.variables(function))
    return held


def graphs_of(
    name: str, value: Any, visited: Dict[int, Any], depth: int = 0
) -> Iterator[Tuple[str, Any]]:
    """The tensors with a graph in a tensor, a list, a dict or an object of the user's classes;
    modules are looked at in unregistered.py."""
    if isinstance(value, torch.Tensor):
        if value.grad_fn is not None:
            yield name, value.grad_fn
        return
    if depth == DEPTH or id(value) in visited or isinstance(value, (type, types.ModuleType)):
        return
    visited[id(value)] = value  # kept, so that no other object gets its id
    for key, each in unregistered.members(value):
        yield from graphs_of("%s[%r]" % (name, key), each, visited, depth + 1)
    if isinstance(value, torch.nn.Module) or not of_user(type(value)):
        return
    for key, each in list(observing.attribute(value, "__dict__", {}).items())[: unregistered.MOST]:
        yield from graphs_of("%s.%s" % (name, key), each, visited, depth + 1)

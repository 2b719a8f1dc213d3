"""Hooks that the factory registered on modules which are no part of the model that it returns, as a
layer that was replaced afterwards: they never run.
"""

from __future__ import annotations

import dis
import re
import weakref
from collections import Counter
from types import CodeType
from typing import Any, Callable, Dict, List, NamedTuple, Set, Union

import torch

from ..foreign import Arguments, Foreign, Function, observing, places

METHODS = ("register_forward_hook", "register_forward_pre_hook")
TABLES = ("_forward_hooks", "_forward_pre_hooks")
COLUMNS = 80
"""Of the description of a module."""


class Registration(NamedTuple):
    """A hook, where it was registered, and on what."""

    hook: Any
    place: str
    module: Any
    """A weak reference."""
    description: str
    number: int
    """Its key in `table`."""
    table: Any
    """The hooks of the module, among which it is unless it was removed."""


class Registrations:
    """Remembers the hooks that are registered while it is entered."""

    def __init__(self) -> None:
        self._all: List[Registration] = []
        self._originals: Dict[str, Any] = {}
        self._called: Set[int] = set()
        """Ids of hooks' modules that are called although they are no part of the model."""
        self._strays: List[Registration] = []

    def __enter__(self) -> Registrations:
        for name in METHODS:
            self._originals[name] = getattr(torch.nn.Module, name)
            setattr(torch.nn.Module, name, self._remembering(self._originals[name]))
        return self

    def __exit__(self, *error: Foreign) -> None:
        for name, original in self._originals.items():
            setattr(torch.nn.Module, name, original)

    def _remembering(self, original: Any) -> Function:
        def register(
            module: torch.nn.Module, hook: Function, *args: Foreign, **options: Foreign
        ) -> Foreign:
            handle = original(module, hook, *args, **options)
            (place, _), _ = places.innermost()
            table = handle.hooks_dict_ref()
            entry = Registration(
                hook, place, weakref.ref(module), described(module), handle.id, table
            )
            self._all.append(entry)
            return handle

        return register

    def watch(self, model: torch.nn.Module) -> None:
        """Find the hooks on other modules than those of this model, and watch these modules."""
        parts = {id(each) for each in model.modules()}
        remaining = Counter(
            code_of(hook)
            for part in model.modules()
            for table in TABLES
            for hook in getattr(part, table, {}).values()
        )
        registered = [each for each in self._all if each.number in each.table]
        remaining.subtract(code_of(each.hook) for each in registered)
        for each in registered:
            module = each.module()
            if module is not None and id(module) in parts:
                continue
            if remaining[code_of(each.hook)] >= 0:  # the model is a copy, with the same hooks
                continue
            self._strays.append(each)
            if module is not None:
                self._originals["register_forward_pre_hook"](module, self._mark(id(each.hook)))

    def _mark(self, identity: int) -> Callable[[torch.nn.Module, Arguments], None]:
        def hook(module: torch.nn.Module, args: Arguments) -> None:
            self._called.add(identity)

        return hook

    def strays(self) -> List[Dict[str, Any]]:
        """The hooks that were never called since, as doctor.facts.own_model.StrayHook."""
        return [
            {
                "hook": " in ".join(filter(None, places.line_of_function(each.hook))),
                "registered": each.place,
                "module": each.description,
                "uses": sorted(names_in(each.hook)),
            }
            for each in self._strays
            if id(each.hook) not in self._called
        ]


def described(module: torch.nn.Module) -> str:
    """ "Linear(in_features=6, out_features=8, bias=True)", without the modules inside."""
    try:
        options = module.extra_repr()
    except Exception:  # the code's own, in a constructor that has not ended
        options = ""
    return "%s(%s)" % (type(module).__name__, options[:COLUMNS])


def code_of(hook: Function) -> Union[CodeType, type]:
    """The code of a function, or of a method; the class of another callable."""
    return observing.code_of(hook) or type(hook)


def names_in(hook: Function) -> Set[str]:
    """Attributes that a hook uses, without methods of tensors, lists and dicts, and the lists,
    dicts and tensors around it."""
    code = observing.code_of(hook)
    if code is None:
        return set()
    cells = zip(code.co_freevars, observing.attribute(hook, "__closure__") or ())
    names = {name for name, cell in cells if holds_values(cell)}
    attributes = (each for each in dis.get_instructions(code) if ATTRIBUTE.match(each.opname))
    names |= {str(each.argval) for each in attributes}
    kinds = (torch.Tensor, list, dict)
    return {name for name in names if not any(hasattr(kind, name) for kind in kinds)}


ATTRIBUTE = re.compile("(LOAD|STORE)_(ATTR|METHOD)")


def holds_values(cell: Foreign) -> bool:
    return isinstance(observing.content(cell), (list, dict, set, torch.Tensor))

"""The modules that a forward pass calls, and the one of torch.nn that is being called."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import sys
from typing import Any, Dict, List, Set

import torch

from ..foreign import Arguments, Foreign, Options, observing
from ..foreign.module_hooks import module_hooks
from ..foreign.stack_frames import is_library
from .value_origins import tensors


class Modules:
    """The module of torch.nn that is being called, and those whose results have a graph."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.inside: List[str] = []
        self.of_node: Dict[Any, str] = {}
        self._root = module

    def watched(self) -> contextlib.AbstractContextManager[None]:
        return module_hooks(self._root, self._enter, self._leave)

    @property
    def current(self) -> str:
        return self.inside[-1] if self.inside else ""

    def _enter(self, name: str, module: torch.nn.Module, args: Arguments, kwargs: Options) -> None:
        named = name and type(module).__module__.startswith("torch.")
        self.inside.append("%s (%s)" % (name, type(module).__name__) if named else "")

    def _leave(self, name: str, module: torch.nn.Module, args: Arguments, output: Foreign) -> None:
        label = self.inside.pop() if self.inside else ""
        for each in tensors(output):
            if label and each.grad_fn is not None:
                self.of_node.setdefault(each.grad_fn, label)


MOST_SHOWN = 8


class Calls:
    """The modules with trainable parameters of their own that a forward pass calls."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._root = module
        self._modules = {
            name: each
            for name, each in module.named_modules()
            if name and any(weight.requires_grad for weight in each.parameters())
            if not isinstance(each, torch.jit.ScriptModule)  # it takes no hooks
        }
        self._called: Set[str] = set()

    def noted(self) -> contextlib.AbstractContextManager[None]:
        """Notes the calls meanwhile."""
        return module_hooks(self._root, self._note)

    def _note(self, name: str, *call: Foreign) -> None:
        if name in self._modules:
            self._called.add(name)

    def missing(self, weights: Set[int]) -> List[str]:
        """The outermost modules of which neither they nor a part of them was called, and whose
        weights no function got: `weights` are the ids of those that were passed to one."""
        for name, module in self._modules.items():
            if any(id(weight) in weights for weight in module.parameters()):
                self._called.add(name)
        idle = [
            name
            for name in self._modules
            if not any(called == name or called.startswith(name + ".") for called in self._called)
        ]
        outer = [n for n in idle if not any(n.startswith(other + ".") for other in idle)]
        return outer[:MOST_SHOWN]

    def unread(self, weights: Set[int]) -> List[str]:
        """The trainable parameters that no function got, those of modules in TorchScript aside."""
        scripts = [
            each for each in self._root.modules() if isinstance(each, torch.jit.ScriptModule)
        ]
        weights = weights | {id(each) for script in scripts for each in script.parameters()}
        named = self._root.named_parameters()
        found = [name for name, each in named if each.requires_grad and id(each) not in weights]
        return found[:MOST_NAMES]


MOST_NAMES = 1000


def owners(module: torch.nn.Module) -> Dict[str, bool]:
    """Name of a module -> whether its class is of an installed package, or whether its code put it
    there; only of those whose answer is another than that of the module around them. Containers
    and layers of torch have none."""
    found: Dict[str, bool] = {}
    every: Dict[str, bool] = {}
    codes: Dict[str, str] = {}
    read: Dict[type, str] = {}
    for name, each in module.named_modules():
        around, _, attribute = name.rpartition(".")
        of_around = bool(name) and every.get(around, False)  # which comes before what it holds
        own = of_around
        if not type(each).__module__.startswith("torch."):
            own = _of_library(type(each))
            if own and type(each) not in read:
                read[type(each)] = _code(type(each))
            codes[name] = read.get(type(each), "")
        elif own and codes.get(around) and not _mentioned(attribute, codes[around]):
            own = False
        every[name] = own
        if own is not of_around:
            found[name] = own
    return found


def _of_library(kind: type) -> bool:
    file = observing.attribute(sys.modules.get(kind.__module__), "__file__")
    return isinstance(file, str) and is_library(file)


def _code(kind: type) -> str:
    """The code of a class and of those that it inherits from, but for torch's; "" if unknown."""
    kinds = [
        each for each in kind.__mro__ if not each.__module__.startswith(("torch.", "builtins"))
    ]
    codes = [observing.attempt(functools.partial(inspect.getsource, each), "") for each in kinds]
    return "\n".join(codes) if all(codes) else ""


def _mentioned(name: str, code: str) -> bool:
    """Whether the code has the word; a layer of another name was put there later."""
    return bool(re.search(r"\b%s\b" % re.escape(name), code))

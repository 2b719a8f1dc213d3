"""The modules that a forward pass calls, and the one of torch.nn that is being called."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, List, Set

import torch

from ..foreign import Arguments, Foreign, Options
from ..foreign.module_hooks import module_hooks
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

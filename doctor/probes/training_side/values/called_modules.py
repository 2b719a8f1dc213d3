"""The modules that a forward pass calls."""

from __future__ import annotations

import contextlib
from typing import List, Set

import torch

from ..foreign import Foreign
from ..foreign.module_hooks import module_hooks

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

"""The module of torch.nn that is being called."""

from __future__ import annotations

from typing import Any, Dict, List

import torch

from ..foreign import Arguments, Foreign, Options
from ..foreign.module_hooks import module_hooks
from .value_origins import tensors


class Modules:
    """The module of torch.nn that is being called, and those whose results have a graph."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.inside: List[str] = []
        self.of_node: Dict[Any, str] = {}
        self._hooks = module_hooks(module, self._enter, self._leave)

    def __enter__(self) -> Modules:
        self._hooks.__enter__()
        return self

    def __exit__(self, *error: Foreign) -> None:
        self._hooks.__exit__(*error)

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

"""The module of torch.nn that is being called."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

import torch

from ..foreign import Arguments, Foreign
from .value_origins import tensors


class Modules:
    """The module of torch.nn that is being called, and those whose results have a graph."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.inside: List[str] = []
        self.of_node: Dict[Any, str] = {}
        self._handles: List[Any] = []
        for name, each in module.named_modules():
            if isinstance(each, torch.jit.ScriptModule):  # it takes no hooks
                continue
            label = "%s (%s)" % (name, type(each).__name__) if name else ""
            of_torch = type(each).__module__.startswith("torch.")
            self._handles.append(each.register_forward_pre_hook(self._enter(label * of_torch)))
            self._handles.append(each.register_forward_hook(self._leave()))

    def __enter__(self) -> Modules:
        return self

    def __exit__(self, *error: Foreign) -> None:
        for handle in self._handles:
            handle.remove()

    @property
    def current(self) -> str:
        return self.inside[-1] if self.inside else ""

    def _enter(self, label: str) -> Callable[[torch.nn.Module, Arguments], None]:
        def hook(module: torch.nn.Module, args: Arguments) -> None:
            self.inside.append(label)

        return hook

    def _leave(self) -> Callable[[torch.nn.Module, Arguments, Foreign], None]:
        def hook(module: torch.nn.Module, args: Arguments, output: Foreign) -> None:
            label = self.inside.pop() if self.inside else ""
            for each in tensors(output):
                if label and each.grad_fn is not None:
                    self.of_node.setdefault(each.grad_fn, label)

        return hook

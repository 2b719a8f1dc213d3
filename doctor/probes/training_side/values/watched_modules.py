"""The module of torch.nn that is being called."""

from __future__ import annotations

from typing import Any, Dict, List

import torch

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

    def __exit__(self, *error: Any) -> None:
        for handle in self._handles:
            handle.remove()

    @property
    def current(self) -> str:
        return self.inside[-1] if self.inside else ""

    def _enter(self, label: str) -> Any:
        def hook(module: Any, args: Any) -> None:
            self.inside.append(label)

        return hook

    def _leave(self) -> Any:
        def hook(module: Any, args: Any, output: Any) -> None:
            label = self.inside.pop() if self.inside else ""
            for each in tensors(output):
                if label and each.grad_fn is not None:
                    self.of_node.setdefault(each.grad_fn, label)

        return hook

"""Gradients that a hook uses up once they are accumulated, as an optimizer that steps in the
backward pass does: the parameter changes, and has no gradient afterwards.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

import torch

from ..foreign import Foreign


class Taken:
    """The norms of the gradients that parameters with such hooks get; entered for each backward
    pass."""

    def __init__(self, weights: Dict[str, Any]) -> None:
        self._weights = weights
        self._norms: Dict[str, float] = {}
        self._versions: Dict[str, int] = {}
        """Of the parameters before their hooks run: each change in place counts one up."""
        self._handles: List[Any] = []

    def __enter__(self) -> Taken:
        self._norms.clear()
        for name, weight in self._weights.items():
            if has_hooks(weight):
                self._handles.append(weight.register_hook(self._note(name)))
        return self

    def __exit__(self, *error: Foreign) -> None:
        while self._handles:
            self._handles.pop().remove()

    def _note(self, name: str) -> Callable[[torch.Tensor], None]:
        def hook(gradient: torch.Tensor) -> None:
            dense = gradient if gradient.layout == torch.strided else gradient.to_dense()
            self._norms[name] = float(dense.float().norm())
            self._versions[name] = self._weights[name]._version

        return hook

    def filled(self, norms: Dict[str, Optional[float]]) -> Dict[str, Optional[float]]:
        """Norms of what is left, with those of the gradients that changed their parameter and of
        which nothing is left."""
        filled = dict(norms)
        for name, norm in self._norms.items():
            if filled[name] is None and self._weights[name]._version != self._versions[name]:
                filled[name] = norm
        return filled


def has_hooks(weight: torch.Tensor) -> bool:
    """Whether a function of the user's gets this parameter once its gradient is accumulated."""
    return bool(getattr(weight, "_post_accumulate_grad_hooks", None))

"""Gradients that a hook takes away once they are accumulated, as an optimizer that steps in the
backward pass does: they were computed, although no parameter has one afterwards.

Imported by training_step.py; standard library and torch only, Python 3.9.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import torch


class Taken:
    """The norms of the gradients that parameters with such hooks get; entered for each backward
    pass."""

    def __init__(self, weights: Dict[str, torch.Tensor]) -> None:
        self._weights = weights
        self._norms: Dict[str, float] = {}
        self._handles: List[Any] = []

    def __enter__(self) -> Taken:
        self._norms.clear()
        for name, weight in self._weights.items():
            if getattr(weight, "_post_accumulate_grad_hooks", None):
                self._handles.append(weight.register_hook(self._note(name)))
        return self

    def __exit__(self, *error: Any) -> None:
        while self._handles:
            self._handles.pop().remove()

    def _note(self, name: str) -> Any:
        def hook(gradient: torch.Tensor) -> None:
            dense = gradient if gradient.layout == torch.strided else gradient.to_dense()
            self._norms[name] = float(dense.float().norm())

        return hook

    def filled(self, norms: Dict[str, Optional[float]]) -> Dict[str, Optional[float]]:
        """Norms of what is left, with those of the gradients of which nothing is."""
        return {name: self._norms.get(name) if n is None else n for name, n in norms.items()}

"""Whether the gradients of an optimizer are cleared between two of its steps.

One sampled gradient is enough: if nothing has cleared it, it is at the start of a backward pass
the same memory with the same version as at the end of the backward pass or step before.
"""

from __future__ import annotations

import weakref
from typing import Any


class Clearing:
    """Follows the gradient of the smallest parameter."""

    def __init__(self) -> None:
        self._sample: Any = None
        self._version: Any = None
        self._cleared = True

    def choose(self, parameters: list[Any], gradients: list[Any]) -> None:
        """Choose the parameter, once one has a gradient."""
        if self._sample is not None and self._sample() is not None:
            return
        with_gradient = [p for p, gradient in zip(parameters, gradients) if gradient is not None]
        if with_gradient:
            self._sample = weakref.ref(min(with_gradient, key=lambda p: p.numel()))

    def before_backward(self) -> None:
        """Notice whether it was cleared since the last `note`."""
        if not self._cleared and (self._version is None or self._version != self._now()):
            self._cleared = True

    def note(self) -> None:
        """Remember it, after a backward pass and after a step."""
        if not self._cleared:
            self._version = self._now()

    def next_step(self) -> bool:
        """A step begins: whether nothing cleared the gradients since the one before."""
        uncleared, self._cleared = not self._cleared, False
        return uncleared

    def _now(self) -> Any:
        parameter = self._sample() if self._sample is not None else None
        gradient = None if parameter is None else parameter.grad
        if gradient is None:
            return None
        return id(gradient) if gradient.is_sparse else (gradient.data_ptr(), gradient._version)

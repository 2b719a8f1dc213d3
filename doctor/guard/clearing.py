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
        self._cleared, self._added = True, False

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
        """Remember it, after a backward pass."""
        if self._cleared:
            return
        before, self._version = self._version, self._now()
        if before and self._version and before[0] == self._version[0]:
            self._added |= before[1] < self._version[1]

    def next_step(self) -> bool:
        """A step begins: whether gradients were added to those of the step before.

        A gradient that was assigned anew, as by loops with fp32 masters, was not.
        """
        uncleared = not self._cleared and self._added
        self._cleared = self._added = False
        return uncleared

    def step_ended(self) -> None:
        """Remember what the step left."""
        self._version, self._added = self._now(), False

    def _now(self) -> Any:
        """Memory and version; None for a sparse gradient, which has no memory of its own."""
        parameter = self._sample() if self._sample is not None else None
        gradient = None if parameter is None else parameter.grad
        if gradient is None or gradient.is_sparse:
            return None
        return gradient.data_ptr(), gradient._version

"""Whether the gradients of an optimizer are cleared between two of its steps.

One sampled gradient is enough: if nothing has cleared it, it is at the start of a backward pass
the same memory with the same version as at the end of the backward pass or step before.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from .foreign import Foreign
from .parameters import part

if TYPE_CHECKING:
    from torch import Tensor


class Clearing:
    """Follows the gradient of the smallest parameter.

    `cleared`: it was, since the last step. `set_to_none`: it was None after the last step, as
    zero_grad() leaves it; until that changes there is no version to note. `position`: of the
    parameter, None before one is chosen. `sample` is a weak reference to it.
    """

    __slots__ = (
        "_added", "_copy", "_version", "cleared", "position", "sample", "set_to_none",
    )  # fmt: skip

    def __init__(self) -> None:
        self.cleared = True
        self.position: int | None = None
        self.sample: Foreign = None
        self._version: Foreign = None
        self._added = False
        self._copy: Foreign = None
        self.set_to_none = False

    def choose(self, parameters: list[Tensor], gradients: list[Tensor]) -> None:
        """Choose the parameter, once one has a gradient."""
        if self.sample is not None and self.sample() is not None:
            return
        with_gradient = [i for i, gradient in enumerate(gradients) if gradient is not None]
        if with_gradient:
            self.position = min(with_gradient, key=lambda i: parameters[i].numel())
            self.sample = weakref.ref(parameters[self.position])

    def before_backward(self) -> None:
        """Notice whether it was cleared since the last `note`, if it was not before."""
        gradient = self._gradient()
        if gradient is None:
            self.cleared = self.set_to_none = True
            self._version = None
        elif self._version is None or self._version != _version(gradient):
            self.cleared, self.set_to_none = True, False

    def note(self) -> None:
        """Remember it, after a backward pass."""
        before, self._version = self._version, self._now()
        if before and self._version and before[0] == self._version[0]:
            self._added |= before[1] < self._version[1]

    def next_step(self) -> bool:
        """A step begins: whether gradients were added to those of the step before.

        A gradient that was assigned anew, as by loops with fp32 masters, was not.
        """
        uncleared = not self.cleared and self._added
        self.cleared = self._added = False
        return uncleared

    def same_as_before(self, without_backward: bool) -> bool:
        """A step begins: whether it has the gradient that the step before had.

        Values are compared, from the first step without a backward pass on: a gradient that is
        written through `.data` keeps its memory and version.
        """
        gradient = self._gradient()
        followed = without_backward or self._copy is not None
        if gradient is None or gradient.is_sparse or not followed:
            return False
        before, self._copy = self._copy, part(gradient).detach().clone()
        if not without_backward or before is None or before.shape != self._copy.shape:
            return False
        return bool((before == self._copy).all())

    def is_clear(self) -> bool:
        """Whether the gradient is None or 0 now; this may wait for a device."""
        gradient = self._gradient()
        return gradient is None or not bool(part(gradient).any())

    def is_none(self) -> bool:
        """Whether there is a sampled parameter, without a gradient now."""
        parameter = self.sample() if self.sample is not None else None
        return parameter is not None and parameter.grad is None

    def memory(self) -> Foreign:
        """Where the sampled gradient is; None where there is none."""
        version = self._now()
        return version and version[0]

    def step_ended(self) -> None:
        """Remember what the step left, unless that is nothing."""
        self._version, self._added = self._now(), False

    def _now(self) -> Foreign:
        return _version(self._gradient())

    def _gradient(self) -> Foreign:
        """The sampled gradient; None where there is none, or no parameter yet or any more."""
        parameter = self.sample() if self.sample is not None else None
        return None if parameter is None else parameter.grad


def _version(gradient: Tensor) -> Foreign:
    """Memory and version; None for a sparse gradient, which has no memory of its own."""
    if gradient is None or gradient.is_sparse:
        return None
    return gradient.data_ptr(), gradient._version

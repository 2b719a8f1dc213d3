"""Whether the gradients of several backward passes reach the step that follows them."""

from __future__ import annotations

from . import thresholds as limit
from .clearing import Clearing
from .foreign import Foreign


class Accumulation:
    """Follows the sampled gradient of the only optimizer through the passes before a step.

    A loop that clears it before each pass steps with the last micro-batch alone. One that puts it
    together itself, as for gradients per sample, assigns another one before the step.
    """

    def __init__(self) -> None:
        self.passes = self._cleared = self._in_a_row = 0
        self._memory: Foreign = None

    def begins(self, passes: int, clearing: Clearing) -> None:
        """A backward pass begins, the first, second, ... since the last step."""
        if passes <= 1:
            self._cleared = 0
        elif clearing.is_none():
            self._cleared += 1
        self.passes = passes

    @property
    def suspicious(self) -> bool:
        """Whether the gradient was None before each of these passes."""
        return self.passes >= limit.ACCUMULATED and self._cleared == self.passes - 1

    def ended(self, clearing: Clearing) -> None:
        """A backward pass has ended."""
        self._memory = clearing.memory() if self.suspicious else None

    def steps(self, clearing: Clearing) -> bool:
        """A step begins: whether it is the last of so many in a row that got one pass alone."""
        memory = clearing.memory()
        alone = self.suspicious and memory is not None and memory == self._memory
        self._in_a_row = self._in_a_row + 1 if alone else 0
        return self._in_a_row == limit.CLEARED_BETWEEN

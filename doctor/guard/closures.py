"""Closures of torch's LBFGS that add their gradients to those of the evaluation before."""

from __future__ import annotations

from . import codes
from . import thresholds as limit
from .context import Context
from .foreign import Foreign


class Closures:
    """Follows the passes inside the first steps; `open` until enough were seen.

    A closure of several micro-batches clears once per evaluation, so that some of its passes find
    nothing.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self.open = True
        self._passes = self._cleared = self._row = self._evaluations = self._steps = 0

    def passes(self, watch: Foreign) -> None:
        """A backward pass begins inside a step."""
        self._passes += 1
        self._cleared += self._passes > 1 and watch.clearing.is_clear()

    def step_ended(self, watch: Foreign, optimizer: Foreign) -> None:
        """A step with a closure has returned."""
        if not self.open:
            return
        now = _evaluations(optimizer)
        count, self._evaluations = now - self._evaluations, now
        added = 2 <= count <= self._passes and not self._cleared
        self._row = self._row + 1 if added else 0
        self._passes = self._cleared = 0
        self._steps += 1
        self.open = self._row < limit.CLOSURES and self._steps < limit.CLOSURE_STEPS
        if self._row == limit.CLOSURES:
            text = (
                f"{watch.name} evaluates its closure {count} times in a step, and nothing clears "
                f"the gradients in between, {limit.CLOSURES} steps in a row: each is the sum of "
                "all before it"
            )
            self._context.warn(codes.GRADIENTS_CLEARED, text, "closure", watch)


def _evaluations(optimizer: Foreign) -> int:
    """How often LBFGS has called closures so far; 0 for another optimizer."""
    if not type(optimizer).__module__.startswith("torch.optim."):
        return 0
    counts = [state.get("func_evals", 0) for state in optimizer.state.values()]
    return max((each for each in counts if type(each) is int), default=0)

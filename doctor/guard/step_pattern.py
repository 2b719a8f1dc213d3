"""Which of the first backward passes a step follows: all but each N-th, where N of them were meant
to be for one step."""

from __future__ import annotations

from . import thresholds as limit
from .context import Context, Lines
from .foreign import Foreign

FRAMES = 8
"""Of the program, that tell two places of a backward pass apart."""


class StepPattern:
    """Follows the passes of one optimizer, all from the same lines of the program.

    A second pass from another line, as of a penalty every few steps, is no micro-batch.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._lines: Lines = ()
        self._stepped = 0
        self._runs: list[int] = []

    def passes(self, stepped: bool, root: Foreign) -> str:
        """A backward pass begins, after a step or not: what is wrong with the last ones, or ""."""
        lines, self._lines = self._lines, self._context.lines(FRAMES)
        if lines != self._lines:
            self.reset()
            return ""
        if stepped:
            self._stepped += 1
            return ""
        self._runs, self._stepped = [*self._runs, self._stepped][-limit.PERIODS :], 0
        run = self._runs[-1]
        if self._runs != [run] * limit.PERIODS or run + 1 < limit.LEAST_PERIOD:
            return ""
        divisor = divided_by(root)
        divided = f", and the loss is divided by {divisor:g}" if divisor == run + 1 else ""
        return (
            f"of {run + 1} backward passes {run} are followed by a step and one is not, "
            f"{limit.PERIODS} times in a row{divided}: an accumulation steps after the last of its "
            "passes alone"
        )

    def reset(self) -> None:
        """Nothing is known of the passes before this one."""
        self._runs, self._stepped = [], 0


def divided_by(root: Foreign) -> float:
    """The number that a loss was divided by last; 0.0 where it was not, or that is not known."""
    node: Foreign = getattr(root, "grad_fn", None)
    if type(node).__name__ not in ("DivBackward0", "MulBackward0"):
        return 0.0
    try:
        number = float(node._saved_other)
    except (AttributeError, RuntimeError, TypeError, ValueError):
        return 0.0
    if type(node).__name__ == "DivBackward0":
        return number
    return round(1.0 / number, 6) if number else 0.0

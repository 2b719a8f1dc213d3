"""Which of the first backward passes a step follows: all but each N-th, where N of them were meant
to be for one step."""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Tuple

from . import thresholds as limit
from .foreign import Foreign

OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
FRAMES = 8
"""Of the program, that tell two places of a backward pass apart."""

Lines = Tuple[Tuple[str, int], ...]


class StepPattern:
    """Follows the passes of one optimizer, all from the same lines of the program.

    A second pass from another line, as of a penalty every few steps, is no micro-batch.
    """

    def __init__(self, torch: ModuleType) -> None:
        self._inside = OWN, os.path.dirname(os.path.abspath(str(torch.__file__))) + os.sep
        self._lines: Lines = ()
        self._stepped = 0
        self._runs: list[int] = []

    def passes(self, stepped: bool, root: Foreign) -> str:
        """A backward pass begins, after a step or not: what is wrong with the last ones, or ""."""
        lines, self._lines = self._lines, self._place()
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

    def _place(self) -> Lines:
        found: list[tuple[str, int]] = []
        frame: Foreign = sys._getframe(1)
        while frame is not None and len(found) < FRAMES:
            if not frame.f_code.co_filename.startswith(self._inside):
                found.append((frame.f_code.co_filename, frame.f_lineno))
            frame = frame.f_back
        return tuple(found)


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

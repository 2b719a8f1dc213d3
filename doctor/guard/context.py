"""What the parts of the watch share: torch, the optimizers, and where alarms go."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Callable, Iterable

from .counts import Tally
from .foreign import Foreign
from .readings import Readings
from .records import WARN, Alarm

if TYPE_CHECKING:
    from .optimizer_watch import OptimizerWatch

OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
Lines = tuple[tuple[str, int], ...]


class Context:
    """`submit` reads tensors without a wait, `watches` gives those of all optimizers, and `add`
    takes an alarm and the watch of its optimizer, None for no single one."""

    def __init__(
        self,
        readings: Readings[OptimizerWatch],
        tally: Tally,
        watches: Callable[[], Iterable[Foreign]],
        add: Callable[[Alarm, Foreign], None],
    ) -> None:
        self.torch, self.steady, self.submit = readings.torch, readings.steady, readings.submit
        self.tally, self.watches, self.add = tally, watches, add
        torch_file = os.path.abspath(str(readings.torch.__file__))
        self._inside = OWN, os.path.dirname(torch_file) + os.sep

    @property
    def step(self) -> int:
        """The most steps that an optimizer has taken."""
        return max((watch.steps for watch in self.watches()), default=0)

    def warn(
        self,
        code: str,
        text: str,
        cause: str = "",
        watch: Foreign = None,
        *,
        step: int | None = None,
        status: str = WARN,
    ) -> None:
        """An alarm, at the present step unless another one is given."""
        now = (self.step if watch is None else watch.steps) if step is None else step
        index = 0 if watch is None else watch.index
        self.add(Alarm(code, status, now, text, cause, index), watch)

    def lines(self, most: int) -> Lines:
        """Files and lines of the program that called into torch, the innermost first."""
        found: list[tuple[str, int]] = []
        frame: Foreign = sys._getframe(1)
        while frame is not None and len(found) < most:
            if not frame.f_code.co_filename.startswith(self._inside):
                found.append((frame.f_code.co_filename, frame.f_lineno))
            frame = frame.f_back
        return tuple(found)

    def where(self) -> str:
        """ " (train.py, line 7)", "" where no line of the program is known."""
        return "".join(f" ({os.path.basename(file)}, line {n})" for file, n in self.lines(1))


def first_two(names: list[str]) -> str:
    """ "a, b and 3 more"."""
    more = f" and {len(names) - 2} more" if len(names) > 2 else ""
    return f"{', '.join(names[:2])}{more}"

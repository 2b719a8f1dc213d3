"""The learning rates of one optimizer."""

from __future__ import annotations

from typing import List, Optional

from .foreign import Foreign


class Rates:
    """Follows the learning rates of the groups, None where one cannot be read.

    `highest` are the largest ones so far. `largest` is that of the groups at the last step,
    `previous` the same at the last step where it was not 0. `risen_at` is the number of the applied
    step that used a higher one than the step before; `fell`: one was lower than that before it.
    `changes` counts new rates, `turns` how often they rose after they had fallen.
    """

    def __init__(self, groups: int) -> None:
        self.highest = [0.0] * groups
        self.largest = self.previous = 0.0
        self.risen_at = 0
        self.fell = self._falls = False
        self.changes = self.turns = 0
        self._before: Optional[List[Optional[float]]] = None

    def change(self, rates: List[Optional[float]], applied: int) -> bool:
        """The rates of the step that may become the applied one of this number; whether new."""
        if rates == self._before:
            return False
        self._before = rates
        self.changes += 1
        self.largest = max([rate for rate in rates if rate is not None], default=1.0)
        if self.largest == 0.0:
            return True
        self.highest = [
            max(old, 1.0 if new is None else new) for old, new in zip(self.highest, rates)
        ]
        if self.largest > self.previous:
            self.risen_at = applied
            self.turns += self._falls
        self._falls = self.largest < self.previous
        self.fell |= self._falls
        self.previous = self.largest
        return True


def number(value: Foreign) -> Optional[float]:
    """A learning rate as a float; None where reading it would wait for a device."""
    if type(value) is float:
        return value
    if isinstance(value, (int, float)):
        return float(value)
    if hasattr(value, "detach") and value.device.type == "cpu":
        return float(value)
    return None

"""The learning rates of one optimizer."""

from __future__ import annotations

from typing import List, Optional

from . import thresholds as limit
from .foreign import Foreign


class Rates:
    """Follows the learning rates of the groups, None where one cannot be read.

    `highest` are the largest ones so far. `largest` is that of the groups at the last step,
    `previous` the same at the last step where it was not 0. `risen_at` is the number of the applied
    step that used a higher one than the step before; `fell`: one was lower than that before it.
    `changes` counts new rates, `known` those that are not all 0, `turns` how often they rose after
    they had fallen.
    """

    def __init__(self, groups: int, made: Optional[List[Optional[float]]] = None) -> None:
        self.highest = [0.0] * groups
        self.largest = self.previous = 0.0
        self.risen_at = 0
        self.fell = self._falls = False
        self.changes = self.turns = self.known = 0
        self._before: Optional[List[Optional[float]]] = None
        self.apart = _apart(made or [])
        """The first rates of the groups, if they differ much; [] otherwise, or once they do not."""

    def change(self, rates: List[Optional[float]], applied: int) -> bool:
        """The rates of the step that may become the applied one of this number; whether new."""
        if rates == self._before:
            return False
        self._before = rates
        self.apart = _apart(rates) if any(rates) else self.apart
        self.changes += 1
        self.known += any(rates)
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


def _apart(rates: List[Optional[float]]) -> List[float]:
    """The rates, where they are far apart."""
    known = [rate for rate in rates if rate]
    apart = len(known) == len(rates) > 1 and max(known) > limit.GROUPS_APART * min(known) > 0.0
    return known if apart else []


def number(value: Foreign) -> Optional[float]:
    """A learning rate as a float; None where reading it would wait for a device."""
    if type(value) is float:
        return value
    if isinstance(value, (int, float)):
        return float(value)
    if hasattr(value, "detach") and value.device.type == "cpu":
        return float(value)
    return None

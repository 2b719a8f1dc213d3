"""Jumps of a series: three values in a row very far above the median of those before, or a block
of twenty whose median is far above the medians of the blocks before."""

from __future__ import annotations

import math
from collections import deque
from typing import Iterable, List, NamedTuple, Optional, Tuple

from . import thresholds as limit

LARGEST = 700.0
"""Of an exponent: beyond it exp() overflows."""


class Jump(NamedTuple):
    """Where a series has jumped: to `level`, from `before`; `block`: both are medians of blocks."""

    level: float
    before: float
    block: bool

    def text(self, name: str) -> str:
        """In words; `name` is that of the series."""
        if self.block:
            return (
                f"the median {name} of the last {limit.LEVEL_STEPS} steps is {self.level:.4g}; "
                f"that of the blocks of {limit.LEVEL_STEPS} before was {self.before:.4g}"
            )
        return (
            f"the {name} is {self.level:.4g}, and was as high in the two steps before; its median "
            f"over {limit.SPIKE_WINDOW} steps is {self.before:.4g}"
        )


class Spikes:
    """One series, value by value."""

    def __init__(self) -> None:
        self._window: deque[float] = deque(maxlen=limit.SPIKE_WINDOW)
        self._block: List[float] = []
        self._blocks: deque[float] = deque(maxlen=limit.LEVEL_BLOCKS)
        """Medians: their spread is that of the noise, also of correlated noise."""
        self._rates: deque[float] = deque(maxlen=limit.SPIKE_RATES)
        self._above = self._age = 0
        self._median = self._bound = math.inf

    def add(self, value: float, rate: float | None = None) -> Jump | None:
        """The jump, where the series has jumped with this value.

        A learning rate that has just risen explains a jump, as a warm restart does.
        """
        if not math.isfinite(value):
            return None
        risen = rate is not None and rate > limit.SPIKE_RISE * max(self._rates, default=rate)
        if rate is not None:
            self._rates.append(rate)
        self._age = (self._age + 1) % limit.SPIKE_EVERY
        if not self._age and len(self._window) == limit.SPIKE_WINDOW:
            self._median, self._bound = _median(self._window), _far(self._window)
        if risen:
            self._begin_anew()
        self._above = self._above + 1 if value > self._bound else 0
        if not self._above:
            self._window.append(value)
        jump = self._add_to_block(value)
        if jump is None and self._above == limit.SPIKE_STEPS:
            jump = Jump(value, self._median, block=False)
        if jump is not None:
            self._begin_anew()
        return jump

    def _begin_anew(self) -> None:
        """From here on the series has another level."""
        self._window.clear()
        self._blocks.clear()
        self._above, self._bound = 0, math.inf

    def _add_to_block(self, value: float) -> Optional[Jump]:
        """The jump, where a block ends with this value and is far above those before."""
        self._block.append(value)
        if len(self._block) < limit.LEVEL_STEPS:
            return None
        level, self._block = _median(self._block), []
        jumped = len(self._blocks) >= limit.LEVEL_BLOCKS_FROM and level > _far(self._blocks)
        before = _median(self._blocks) if jumped else 0.0
        self._blocks.append(level)
        return Jump(level, before, block=True) if jumped else None


def _far(values: Iterable[float]) -> float:
    """What is far above the values: noise is often a factor, so their logarithms count as well."""
    median, bound = _bound(values)
    far = max(bound, median + limit.SPIKE_SHARE * abs(median))
    if min(values) > 0.0:
        _, logarithm = _bound([math.log(value) for value in values])
        far = max(far, math.exp(logarithm) if logarithm < LARGEST else math.inf)
    return far


def _bound(values: Iterable[float]) -> Tuple[float, float]:
    """The median, and what is SPIKE_DEVIATIONS scaled median deviations above it."""
    median = _median(values)
    deviation = 1.4826 * _median([abs(value - median) for value in values])
    return median, median + limit.SPIKE_DEVIATIONS * deviation


def _median(values: Iterable[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2

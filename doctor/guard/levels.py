"""A classifier whose loss stays at that of a uniform guess, or above, because of its rate."""

from __future__ import annotations

import math
from collections import deque
from typing import Deque, Iterator, Optional, Tuple

from . import codes
from . import thresholds as limit
from .records import WARN, Alarm


class Level:
    """The first and the last losses of an optimizer, and how far its rates let the weights go."""

    def __init__(self) -> None:
        self.count = 0
        self.start = self.first = 0.0
        """The first loss, and the mean of the first few."""
        self._last: Deque[float] = deque(maxlen=limit.FLAT_WINDOW)
        self._size = 1.0
        """Of the first few losses, the largest, at least 1."""
        self._rates = self._paths = 0.0
        self._previous, self._rising = math.inf, False
        self._leap, self._leapt_at = 0.0, 0
        """The largest of the losses that follow the first few steps, and its step."""
        self._rises = self._climbs = 0
        """Losses above the one before, and how often they began to rise after they had not."""

    def add(self, loss: float, rate: Optional[float], norm: Optional[float]) -> None:
        """One step: its loss, its largest learning rate, the norm of its gradients."""
        if not math.isfinite(loss):
            return
        self.start = self.start if self.count else loss
        self.count += 1
        if self.count <= limit.FLAT_FIRST:
            self.first += loss / limit.FLAT_FIRST
            self._size = max(self._size, abs(loss))
        if 1 < self.count <= limit.LEAP_WITHIN and loss > self._leap:
            self._leap, self._leapt_at = loss, self.count
        self._last.append(loss)
        rising, self._previous = loss > self._previous, loss
        self._rises += rising
        self._climbs += rising and not self._rising
        self._rising = rising
        self._rates += rate or 0.0
        self._paths += (rate or 0.0) * (norm or 0.0)

    def alarms(self, classes: int, adaptive: bool, steps: int) -> Iterator[Alarm]:
        """What the first and the last losses show at the end, the first that holds."""
        cause, text = self.judge(classes, adaptive, steps)
        if leap := self.leapt(classes):
            yield Alarm(codes.LOSS_FALLS, WARN, self._leapt_at, leap, "leap")
        elif text:
            yield Alarm(codes.LOSS_FALLS, WARN, steps, text, cause)
        elif text := self.unbounded():
            yield Alarm(codes.LOSS_STABLE, WARN, steps, text, "unbounded")
        elif text := self.exploded():
            yield Alarm(codes.LOSS_STABLE, WARN, steps, text, "exploded")

    def leapt(self, classes: int) -> str:
        """A sentence on a classifier that its first steps throw far off, "" for none."""
        guess = math.log(classes) if classes > 1 else math.inf
        recovered = bool(self._last) and sum(self._last) / len(self._last) < guess
        if recovered or self._leap < limit.LEAP * max(guess, self.start):
            return ""
        return (
            f"the loss was {self.start:.3g} at the first step and {self._leap:.3g} at step "
            f"{self._leapt_at}, where a uniform guess of {classes:,} classes has {guess:.3g}: the "
            "first steps were far too long"
        )

    def unbounded(self) -> str:
        """A sentence on a loss that runs below every bound, "" for none."""
        if self.count < limit.UNBOUNDED_FROM:
            return ""
        last = list(self._last)
        half = len(last) // 2
        before, after = sorted(last[:half])[half // 2], sorted(last[half:])[half // 2]
        if after > -limit.UNBOUNDED * self._size or after >= before:
            return ""
        return (
            f"the loss is {after:.4g} at the end, was {self.start:.3g} at the first step, and "
            "still falls: nothing bounds it from below"
        )

    def exploded(self) -> str:
        """A sentence on a loss that is finite and far above what it was, "" for none, and where it
        falls between a few climbs: something multiplies it from time to time, as the factor of a
        barrier or a penalty that is raised in rounds."""
        raised = self._climbs >= limit.ROUNDS and self._rises <= limit.IN_ROUNDS * self.count
        if self.count < limit.EXPLODED_FROM or raised:
            return ""
        last = sorted(list(self._last)[-limit.EXPLODED_FROM // 2 :])
        middle = last[len(last) // 2]
        if middle < limit.EXPLODED * self._size:
            return ""
        return f"the loss is {middle:.3g} at the end, and was {self.start:.3g} at the first step"

    def judge(self, classes: int, adaptive: bool, steps: int) -> Tuple[str, str]:
        """A cause and a sentence; "" for nothing. `steps` are all, also those not read."""
        if classes < 2 or self.count < limit.FAR_FROM:
            return "", ""
        guess, last = math.log(classes), sorted(self._last)[len(self._last) // 2]
        text = (
            f"the loss is {last:.3g} after {steps:,} steps, and was {self.start:.3g} at the first; "
            f"a uniform guess of {classes:,} classes has {guess:.3g}"
        )
        if last >= limit.FAR_WORSE * guess and last >= limit.FAR_WORSE * self.first:
            return "exploded", text
        if self.count < limit.FLAT_STEPS:
            return "", ""
        path = (self._rates if adaptive else self._paths) * steps / self.count
        if last >= limit.WORSE_THAN_GUESS * guess and last >= self.start:
            return "rate-high", text
        still = last > self.first - limit.STILL_SHARE * guess and self.first > 0.9 * guess
        if still and path < limit.SHORT_PATH:
            return (
                "rate-low",
                f"{text}. The learning rates let the weights move by {path:.2g} in all",
            )
        return "", ""

"""The steps of a loop without an optimizer of torch.optim, which the program reports itself."""

from __future__ import annotations

import time
from typing import Callable

from .foreign import Foreign
from .judging import Judging
from .parameters import local
from .records import Step
from .registry import Registry
from .rules import StepRules


class Reported:
    """Judges them as one more optimizer, whose index is -1."""

    def __init__(self, judging: Judging, registry: Registry, start: Callable[[], None]) -> None:
        self._judging, self._registry, self._start = judging, registry, start

    def step(self, loss: Foreign, rate: float | None) -> None:
        """A step of a loop without an optimizer of torch.optim."""
        self._start()
        judging, rules = self._judging, self._registry.rules
        reported = rules.setdefault(-1, StepRules(-1, rules))
        step = Step(-1, reported.applied + 1, rates=[] if rate is None else [float(rate)])
        tensor = isinstance(loss, judging.readings.torch.Tensor)

        def deliver(values: list[Foreign]) -> None:
            step.losses = [float(value) for value in values if value is not None]
            for value in step.losses:
                judging.steady.count_loss(value)
            judging.judge(reported, step, None, time.monotonic())

        if tensor:
            judging.readings.submit([local(loss).reshape(())], deliver)
        else:
            deliver([loss])

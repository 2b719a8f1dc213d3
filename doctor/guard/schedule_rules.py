"""The rules for schedulers of learning rates: numbers in, causes and sentences out. No torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterator, List, Tuple

from . import thresholds as limit

PER_EPOCH = ("StepLR", "MultiStepLR", "ExponentialLR", "MultiplicativeLR")
"""What decays for good: usually once per epoch."""
Found = Iterator[Tuple[str, str]]


@dataclass
class Use:
    """How a scheduler has been used since it was created.

    `calls` are those of its step(), `steps` those of its optimizer, `horizon` the calls that its
    schedule consists of, 0 where that is not known. `batches` are those of an epoch of the loader
    that trains, `epochs` how many began. `turns`: how often the rate rose after it had fallen.
    """

    name: str
    calls: int
    horizon: int
    steps: int
    backwards: int
    batches: int = 0
    epochs: int = 0
    initial: float = 0.0
    rate: float = 0.0
    highest: float = 0.0
    turns: int = 0
    beside: int = 0
    """Calls of other schedulers of the optimizer."""

    @property
    def rare(self) -> bool:
        """Whether it is called far less often than its optimizer, as once per epoch."""
        return self.calls > 0 and self.steps >= limit.CALLED_RARELY * self.calls

    @property
    def at_every_step(self) -> bool:
        """Whether it is called as often as its optimizer."""
        return self.steps >= 20 and abs(self.calls - self.steps) <= 0.1 * self.steps


def now(use: Use) -> Found:
    """What the calls so far show."""
    if use.steps >= 10 and use.calls >= limit.CALLED_OFTEN * use.steps:
        text = f"{use.name} is stepped {use.calls:,} times in {use.steps:,} steps of the optimizer"
        if abs(use.backwards - use.calls) <= 0.05 * use.calls:
            text += ", once per backward pass"
        if use.horizon and use.calls > 1.05 * use.horizon:
            yield "often", f"{text}: its {use.horizon:,} steps are over, and the training goes on"
        elif use.name == "LambdaLR" and not use.horizon and use.turns:
            yield "often", f"{text}: the learning rate has fallen, and rises again"
    at_every_step, cosine = use.at_every_step, use.name == "CosineAnnealingLR"
    if at_every_step and cosine and 2 * use.horizon < min(use.calls, use.batches + 1):
        text = (
            f"{use.name} with T_max={use.horizon:,} is stepped at every step, and an epoch has "
            f"{use.batches:,}: the learning rate falls and rises again within it"
        )
        yield "per-epoch", text
    gone = 0.0 < use.rate <= limit.RATE_GONE * use.initial and use.steps <= 2 * use.batches
    if at_every_step and use.name in PER_EPOCH and gone:
        text = (
            f"{use.name} is stepped at every step: the learning rate fell from {use.initial:.3g} "
            f"to {use.rate:.3g} in {use.steps:,} steps, and an epoch has {use.batches:,}"
        )
        yield "per-epoch", text


def at_the_end(use: Use) -> Found:
    """What the whole of a training shows that has ended by itself."""
    if use.steps < limit.IDLE_FROM:
        return
    long = use.epochs > 1 or (not use.batches and use.steps >= limit.NEVER_STEPPED)
    if long and not use.calls and not use.beside:
        yield "never", f"{use.name} was created and never stepped in {use.steps:,} steps"
    if use.rare and not use.beside and 0.8 * use.steps <= use.horizon <= 1.25 * use.steps:
        text = (
            f"{use.name} was stepped {use.calls:,} times; its schedule has {use.horizon:,} steps, "
            f"as many as the optimizer has made ({use.steps:,})"
        )
        yield "per-step", text
    elif use.rare and 0.0 < use.highest <= limit.WARM_SHARE * use.initial:
        text = (
            f"{use.name} was stepped {use.calls:,} times in {use.steps:,} steps: the learning rate "
            f"came to {use.highest:.3g}, of {use.initial:.3g}"
        )
        yield "per-step", text


def plateau(metrics: List[float], mode: str, patience: int) -> Found:
    """A metric that only gets worse by the mode of ReduceLROnPlateau, or is always the same."""
    if len(metrics) < max(limit.LEAST_METRICS, 2 * (patience + 2)):
        return
    first, last = metrics[0], metrics[-1]
    if len(set(metrics)) == 1:
        text = (
            f"ReduceLROnPlateau got {first:.6g} in all of {len(metrics)} calls: a metric that "
            "training does not change"
        )
        yield "constant", text
        return
    sign = -1.0 if mode == "max" else 1.0
    after = metrics[1:]
    changes = [sign * (b - a) for a, b in zip(metrics, after)]
    worse = sum(change > 0.0 for change in changes) >= 2 * sum(change < 0.0 for change in changes)
    never_better = all(sign * (value - first) >= 0.0 for value in metrics)
    if worse and never_better and sign * (last - first) > limit.METRIC_SHARE * abs(first):
        moves = "falls" if sign < 0.0 else "rises"
        text = (
            f"ReduceLROnPlateau has mode={mode!r}, and its metric {moves}: {first:.4g} in the "
            f"first of {len(metrics)} calls, never better, {last:.4g} in the last. That lowers the "
            "learning rate"
        )
        yield "mode", text

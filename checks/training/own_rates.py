"""The learning rate over the steps of the user's own training: its schedule, decay and clipping."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from doctor.checks.training.own_optimizer import CLIP_FIX, TINY_RATE, TINY_RATE_FIX
from doctor.facts.loss_trend import stays_above
from doctor.facts.own_model import OwnModel, Trend
from doctor.facts.training import Optimizer, Smoke
from doctor.judge.check import Status, Verdict, warn


def over_schedule(steps: Smoke, verdict: Verdict, trend: Trend | None) -> Verdict:
    """The verdict on weights that change; a warning if the learning rate, or the clipping, ends
    that within the first steps."""
    optimizer = steps.optimizer
    if optimizer is None:
        return verdict
    rates = trend.rates if trend else ()
    observed = (
        _falls(optimizer, rates, len(steps.steps))
        or _decays(optimizer)
        or _stays_tiny(optimizer, rates)
        or _clipped(optimizer)
    )
    if observed is None:
        return verdict
    text, fix = observed
    return warn(f"{text}; {verdict.summary}", fix=fix)


def _falls(optimizer: Optimizer, rates: Sequence[float], steps: int) -> tuple[str, str] | None:
    """A learning rate that falls within the first steps and stays low."""
    first = rates[:steps]
    least = FALLEN * max(first, default=0.0)
    fallen = next((n for n, rate in enumerate(first) if rate < least), None)
    if not fallen or len(rates) < FEWEST or max(rates[fallen:]) >= least:
        return None
    return (
        f"the learning rate falls from {max(first):g} to {rates[fallen]:g} in step {fallen + 1}"
        f"{_with_schedule(optimizer)}, and is at most {max(rates[fallen:]):g} in the "
        f"{len(rates) - fallen} steps from there; required: it lasts longer than {fallen} "
        f"{'step' if fallen == 1 else 'steps'}",
        SCHEDULE_FIX,
    )


def _decays(optimizer: Optimizer) -> tuple[str, str] | None:
    """Weight decay that takes a large part of the weights in each step."""
    if optimizer.decay < LARGE_DECAY:
        return None
    return (
        f"learning rate times weight decay is {optimizer.decay:g}, so each step multiplies the "
        f"weights by {1 - optimizer.decay:.3g}; required: below {LARGE_DECAY:g}",
        DECAY_FIX,
    )


def _stays_tiny(optimizer: Optimizer, rates: Sequence[float]) -> tuple[str, str] | None:
    """A learning rate that is too small in every step."""
    rises = bool(rates) and rates[-1] > rates[0]
    required = TINY_WARM_UP if rises else TINY_RATE
    if len(rates) < FEWEST or not 0.0 < max(rates) < required:
        return None
    return (
        f"the learning rate is at most {max(rates):g} in {len(rates)} steps"
        f"{_with_schedule(optimizer)}{'' if rises else ', and does not rise'}; "
        f"required: at least {required:g}",
        f"{TINY_RATE_FIX} A LambdaLR returns a factor of the rate, not the rate.",
    )


def _clipped(optimizer: Optimizer) -> tuple[str, str] | None:
    """Clipping below the epsilon, which then decides the length of the steps."""
    if not (optimizer.epsilon and optimizer.max_norm and optimizer.max_norm < optimizer.epsilon):
        return None
    return (
        f"gradients are clipped to a norm of {optimizer.max_norm:g}, and the epsilon of "
        f"{optimizer.name} is {optimizer.epsilon:g}: its steps are smaller than the learning rate "
        "by that factor",
        CLIP_FIX,
    )


def _with_schedule(optimizer: Optimizer | None) -> str:
    return f" with {optimizer.schedule}" if optimizer and optimizer.schedule else ""


def by_the_update(steps: Smoke, verdict: Verdict) -> Verdict:
    """The verdict on losses; a learning rate that is not finite, or an epsilon of 0 where an update
    makes weights non-finite, comes before all other remedies."""
    optimizer, diagnosis = steps.optimizer, steps.diagnosis
    of_update = diagnosis is not None and diagnosis.origin == "update"
    if optimizer and optimizer.epsilon == 0.0 and of_update and verdict.status is Status.FAIL:
        text = f"eps of {optimizer.name} is 0, and a gradient of exactly 0 gives 0 / 0"
        return replace(verdict, summary=f"{verdict.summary}; {text}", fix=ZERO_EPSILON_FIX)
    bad = next((n for n, step in enumerate(steps.steps, 1) if not math.isfinite(step.lr)), None)
    if bad is None or verdict.status is Status.PASS:
        return verdict
    rate = f"the learning rate is {steps.steps[bad - 1].lr} in step {bad}"
    summary = f"{verdict.summary}; {rate}{_with_schedule(optimizer)}"
    return replace(verdict, summary=summary, fix=RATE_NOT_FINITE_FIX)


def by_the_scale(own: OwnModel, verdict: Verdict) -> Verdict:
    """The verdict on losses; where the learning rate is too high, the values of the batch that make
    it so come first: a squared error of prices has gradients of their size."""
    if verdict.status is Status.PASS or "Lower the learning rate" not in (verdict.fix or ""):
        return verdict
    sizes = {
        each.name: max(abs(float(each.low)), abs(float(each.high)))
        for each in own.batch
        if each.dtype.startswith(("float", "bfloat"))
        and each.low is not None
        and each.high is not None
    }
    large = {name: size for name, size in sizes.items() if LARGE_VALUE <= size < math.inf}
    if not large:
        return verdict
    shown = ", ".join(f"{name} up to {size:.3g}" for name, size in large.items())
    summary = f"{verdict.summary}; the batch has large values: {shown}"
    return replace(verdict, summary=summary, fix=f"{SCALE_FIX}\n{verdict.fix}")


def growth_cause(steps: Smoke, trend: Trend | None) -> tuple[str, str]:
    """What makes the weights grow in each step, and the fix; ("", "") if nothing was observed."""
    optimizer = steps.optimizer
    if optimizer is None:
        return "", ""
    if optimizer.momentum >= 1.0:
        text = f"momentum={optimizer.momentum:g} multiplies the previous update in each step"
        return text, MOMENTUM_FIX
    rates = [rate for rate in (trend.rates if trend else ()) if rate > 0]
    if optimizer.decay > 2.0 and max(rates, default=0.0) < 1.0:
        factor = 1 - optimizer.decay
        text = "learning rate times weight decay is"
        return f"{text} {optimizer.decay:g}, so each step multiplies the weights by {factor:g}", (
            DECAY_FIX
        )
    if rates and optimizer.schedule and max(rates) > RISEN * rates[0] and max(rates) > HIGH:
        text = f"the learning rate rises from {rates[0]:g} to {max(rates):g}"
        return f"{text} with {optimizer.schedule}", RISING_FIX
    if rates:
        return f"the learning rate of {optimizer.name} is {max(rates):g}", ""
    return "", ""


def too_fast(own: OwnModel, steps: Smoke, trend: Trend) -> tuple[str, str] | None:
    """A loss that stays above its first value, and falls at a lower learning rate."""
    if not stays_above(trend):
        return None
    losses = [float(loss) for loss in trend.losses]
    slower = [(share, list(map(float, of_share))) for share, of_share in own.slower]
    falling = [share for share, each in slower if each[-1] <= each[0]]
    if not falling:
        return None
    cause, fix = growth_cause(steps, trend)
    return (
        f"the loss is {losses[0]:.4g} in the first step and at least {min(losses[1:]):.4g} in the "
        f"{len(losses) - 1} steps that follow on the same batch; at {max(falling):g} of the "
        f"learning rate it falls; {cause}; required: it falls",
        fix or TOO_FAST_FIX,
    )


TOO_FAST_FIX = (
    "Lower the learning rate: 1e-3 to 1e-1 is usual for SGD, 1e-5 to 1e-3 for Adam. A rate for "
    "another batch size is multiplied by the ratio of both sizes, lr * batch / 256, and not by the "
    "batch size itself."
)


LARGE_VALUE = 1e3
"""Our own number: pixels reach 255, and what is standardized 10."""
SCALE_FIX = (
    "Standardize these values first, inputs and targets: subtract the mean and divide by the "
    "standard deviation of the training data."
)
FALLEN, FEWEST = 1.01e-4, 10
"""Our own numbers: a fall of the learning rate that ends the training, and the steps to see it."""
LARGE_DECAY = 0.5
"""Our own number: usual products are 1e-6 to 1e-3."""
RISEN, HIGH = 10.0, 0.01
"""Times the first learning rate, and a high one for any optimizer."""
TINY_WARM_UP = 1e-9
"""A warm-up of 10,000 steps to 5e-7, the smallest rate that is usual, is above it in step 20."""
SCHEDULE_FIX = (
    "Give the schedule the number of steps of the whole training, and step it as often as it "
    "counts: one made for epochs is stepped once an epoch, and ExponentialLR multiplies by gamma "
    "each time (0.95 to 0.999 is usual)."
)
MOMENTUM_FIX = "Set momentum below 1: 0.9 is usual."
DECAY_FIX = "Lower weight_decay: 0.01 to 0.1 is usual for AdamW, 1e-4 for SGD."
RISING_FIX = (
    "Look at the schedule: gamma below 1 lowers the learning rate, a LambdaLR returns a factor of "
    "it and not the rate itself, and max_lr of OneCycleLR and CyclicLR takes the place of the "
    "optimizer's (1e-4 to 1e-2 is usual)."
)
NEGATIVE_RATE_FIX = (
    "Compute the schedule again: below 0 each step raises the loss. A cosine from 1 to 0 is "
    "(1 + cos(pi * step / steps)) / 2, and a linear one max(0, 1 - step / steps)."
)
ZERO_EPSILON_FIX = "Give the optimizer an epsilon: eps=1e-8, torch's default."
RATE_NOT_FINITE_FIX = (
    "Compute the schedule again: one update with such a learning rate makes all weights NaN. A "
    "warm-up of 0 steps divides by 0: max(1, warm_up_steps)."
)

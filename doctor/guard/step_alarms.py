"""Alarms on steps that no rule of one step finds: numbers in, alarms out. No torch."""

from __future__ import annotations

from typing import List, Optional, Tuple

from . import codes
from . import thresholds as limit
from .records import FAIL, WARN, Alarm, Step


def rate_text(count: int, had_rate: bool) -> str:
    """That a learning rate is 0 for so many steps."""
    when = "after it was not" if had_rate else "from the start"
    return f"the learning rate of every group is 0, {count} steps in a row, {when}"


def without_step(count: int, step: int) -> Alarm:
    """The alarm for far more backward passes than usual since any optimizer stepped."""
    text = f"{count} backward passes since the last step of an optimizer"
    return Alarm(codes.STEPS_APPLIED, WARN, step, text, "no-step")


def cleared_between(passes: int, step: int, optimizer: int) -> Alarm:
    """The alarm for a loop that clears the gradients between the passes of one step."""
    text = (
        f"the gradients were cleared before each of the {passes} backward passes of a step, "
        f"{limit.CLEARED_BETWEEN} steps in a row: only the last pass is trained"
    )
    return Alarm(codes.GRADIENTS_CLEARED, WARN, step, text, "between", optimizer)


def rate_alarm(
    rates: List[Optional[float]], before: float, fell: bool, at: Tuple[int, int]
) -> List[Alarm]:
    """The alarms for learning rates below 0, or far above `before`, the largest one so far.

    `fell`: a rate was once below the one before it, so that this is no warm-up in stairs. `at` is
    the optimizer and its step.
    """
    optimizer, step = at
    known = [rate for rate in rates if rate is not None]
    least, most = min(known, default=0.0), max(known, default=0.0)
    if least < -limit.NEGATIVE_SHARE * before:
        text = f"a learning rate is {least:.3g}: the step goes up the gradient"
        return [Alarm(codes.LEARNING_RATE, FAIL, step, text, "negative", optimizer)]
    if most > (limit.RATE_JUMP if fell else limit.RATE_JUMP_RISING) * before > 0.0:
        text = f"the learning rate jumps to {most:.3g}; the largest one before was {before:.3g}"
        return [Alarm(codes.LEARNING_RATE, WARN, step, text, "jump", optimizer)]
    return []


def groups_alarm(
    rates: List[Optional[float]], before: List[float], at: Tuple[int, int]
) -> List[Alarm]:
    """The alarm where groups that were made with other rates, `before`, have the same now."""
    optimizer, step = at
    if len(rates) != len(before) or len(set(rates)) > 1 or not rates[0]:
        return []
    made = ", ".join(f"{rate:.3g}" for rate in sorted(set(before))[:4])
    text = (
        f"{len(before)} groups of parameters had learning rates of {made}, and all have "
        f"{rates[0]:.3g} now: what sets the rate sets the same one for every group"
    )
    return [Alarm(codes.SCHEDULE_FITS, WARN, step, text, "groups", optimizer)]


def spoiled(step: Step, weights: List[int], state: List[int], optimizer: int) -> Alarm:
    """The alarm for what is not finite after a step whose gradients were not.

    `weights` and `state` are the parameters of which the weight, or what the optimizer keeps for
    it, is not finite.
    """
    what = f"{len(weights)} parameters" if weights else f"the state of {len(state)} parameters"
    text = f"the step was applied with gradients whose norm is {step.norm}: {what} "
    text += "are not finite after it" if weights else "is not finite after it"
    return Alarm(codes.GRADIENTS_FINITE, FAIL, step.step, text, "", optimizer, weights or state)


def not_known_to_spoil(step: Step, optimizer: int) -> Alarm:
    """The alarm where the weights after such a step could not be read."""
    text = f"the gradients have the norm {step.norm}; not all weights after the step were read"
    return Alarm(codes.GRADIENTS_FINITE, WARN, step.step, text, "", optimizer)


def scale_alarm(scale: float, initial: float, step: int) -> List[Alarm]:
    """The alarm where a GradScaler's scale fell below 1."""
    if scale >= limit.SMALLEST_SCALE or initial < limit.SMALLEST_SCALE:
        return []
    text = f"the loss scale fell from {initial:g} to {scale:g}"
    return [Alarm(codes.SCALE_HOLDS, FAIL, step, text)]

"""A learning rate that begins its schedule anew in the middle of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from doctor.checks.log.curves.reading import each_curve, place_at, step_at, values_of
from doctor.facts.log import Curve, Log
from doctor.judge.check import Verdict, ok, skip, warn

DROPS, HIGH, RISES = 0.3, 0.5, 3
"""A new warm-up: the rate falls at once to this share or less, from this share of its highest value
or more, and rises at so many logged steps after it. Restarts of a cosine jump up in place of down.
Our own numbers."""
JUMPS, BACK = 2.0, 0.9
"""A schedule without its state: the rate rises at once by this factor, to this share of its highest
value or more, and falls again. Our own numbers."""
MOST = 3
"""Restarts that are a fault of a resumption; more are a schedule."""
RESUMED = "training-resumed"
AGAIN = (
    "Restore the scheduler with the weights: save and load its state_dict (resume_from_checkpoint "
    "of the Trainer, ckpt_path of Lightning, load_universal or load_lr_scheduler_states of "
    "DeepSpeed), or build it with last_epoch set to the number of steps that were taken. Build it "
    "once, outside the loop over epochs. Go back to the checkpoint before the jump."
)


def continues(log: Log) -> Verdict:
    return each_curve(log, "learning_rate", lambda curve: _again(log, curve))


def _again(log: Log, rate: Curve) -> Verdict:
    """A warning where the schedule begins anew while the steps go on."""
    values = values_of(rate)
    if not all(map(math.isfinite, values)):
        return skip("the learning rate is not finite")
    warmed = [at for at in _went_on(rate) if _warms_up(values, at)]
    if 0 < len(warmed) <= MOST:
        at = warmed[0]
        told = f"the learning rate falls from {values[at - 1]:.3g} to {values[at]:.3g}"
        return _found(rate, at, f"{told} at {step_at(rate, at)} and warms up once more")
    resumed = [
        each.line for each in log.harmless if each.name == RESUMED and each.path == rate.path
    ]
    for at in _went_on(rate):
        between = any(rate.lines[at - 1] < line < rate.lines[at] for line in resumed)
        if between and _is_back(values, at):
            told = f"the learning rate rises from {values[at - 1]:.3g} to {values[at]:.3g}"
            return _found(rate, at, f"{told} at {step_at(rate, at)}, where the run was resumed")
    return ok("the schedule of the learning rate does not begin anew")


def _found(rate: Curve, at: int, summary: str) -> Verdict:
    again = "the schedule began anew while the steps went on"
    return replace(warn(f"{summary}: {again}", fix=AGAIN), places=(place_at(rate, at),))


def _went_on(rate: Curve) -> Sequence[int]:
    """Indices at which the step does not go back, as it does where another run begins."""
    return [at for at in range(1, len(rate.steps)) if rate.steps[at] >= rate.steps[at - 1] > 1]


def _warms_up(values: Sequence[float], at: int) -> bool:
    before, highest, after = values[at - 1], max(values[:at]), values[at : at + RISES + 1]
    if not (before >= HIGH * highest > 0 and values[at] <= DROPS * before):
        return False
    rises = len(after) > RISES and all(x < y for x, y in pairwise(after))
    return rises and max(values[at:]) > HIGH * before


def _is_back(values: Sequence[float], at: int) -> bool:
    before, highest = values[at - 1], max(values[:at])
    return values[at] > JUMPS * before and values[at] >= BACK * highest and values[-1] < values[at]

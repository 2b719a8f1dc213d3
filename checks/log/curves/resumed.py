"""Where a run is resumed: a learning rate that begins its schedule anew, a loss that is lost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from doctor._util.median import median
from doctor.checks.log.curves.reading import (
    each_curve,
    finite_of,
    place_at,
    states,
    step_at,
    values_of,
)
from doctor.checks.log.curves.rewards import is_of_policy
from doctor.facts.log import Curve, Log
from doctor.judge.check import Status, Verdict, fail, ok, skip, warn

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
    if states(log, "restarts"):
        return ok("the log says that the schedule restarts")
    resumed = resumed_at(log, rate)
    warmed = [at for at in _went_on(rate) if _warms_up(values, at, decayed=at in resumed)]
    if 0 < len(warmed) <= MOST:
        at = warmed[0]
        summary = f"the learning rate falls from {values[at - 1]:.3g} to {values[at]:.3g}"
        return _found(rate, at, f"{summary} at {step_at(rate, at)} and warms up once more")
    for at in _went_on(rate):
        if at in resumed and _is_back(values, at):
            summary = f"the learning rate rises from {values[at - 1]:.3g} to {values[at]:.3g}"
            return _found(rate, at, f"{summary} at {step_at(rate, at)}, where the run was resumed")
    return ok("the schedule of the learning rate does not begin anew")


def _found(rate: Curve, at: int, summary: str) -> Verdict:
    again = "the schedule began anew while the steps went on"
    return warn(f"{summary}: {again}", fix=AGAIN, places=(place_at(rate, at),))


def _went_on(rate: Curve) -> Sequence[int]:
    """Indices at which the step does not go back, as it does where another run begins."""
    return [at for at in range(1, len(rate.steps)) if rate.steps[at] >= rate.steps[at - 1] > 1]


def _resumptions(log: Log, curve: Curve) -> list[int]:
    """The first and the last line that say that a run is resumed."""
    own = [each for each in log.harmless if each.name == RESUMED and each.path == curve.path]
    return sorted({line for each in own for line in (each.line, each.last_line) if line})


def resumed_at(log: Log, curve: Curve) -> set[int]:
    """Indices of the first values after lines that say that the run is resumed."""
    own = _resumptions(log, curve)
    return {
        at
        for at in range(1, len(curve.lines))
        if any(curve.lines[at - 1] < line < curve.lines[at] for line in own)
    }


def _warms_up(values: Sequence[float], at: int, *, decayed: bool) -> bool:
    """Whether the rate falls and rises again, from a high level and far or, where `decayed`, from
    any and by half."""
    before, highest, after = values[at - 1], max(values[:at]), values[at : at + RISES + 1]
    high, drop = (DROPS * HIGH, HIGH) if decayed else (HIGH, DROPS)
    if not (before >= high * highest > 0 and values[at] <= drop * before):
        return False
    rises = len(after) > RISES and all(x < y for x, y in pairwise(after))
    return rises and max(values[at:]) > HIGH * before


def _is_back(values: Sequence[float], at: int) -> bool:
    before, highest = values[at - 1], max(values[:at])
    return values[at] > JUMPS * before and values[at] >= BACK * highest and values[-1] < values[at]


SOME, LEARNED, GONE = 5, 0.1, 0.5
"""Values on each side of the line that says that a run is resumed, the share of the loss that was
learned before, and the part of it that is lost after. Our own numbers."""
NOT_LOADED = (
    "The weights of the checkpoint are not in the model. Read what the loading prints "
    "(missing_keys, unexpected_keys; strict=False hides them), and compare the names with doctor "
    "scan FILE: a prefix (module., _orig_mod.), an adapter without its base, a shard alone. Look "
    "for code that initializes or wraps the model after it was loaded, for an average of the "
    "weights (EMA) in its place, and for another tokenizer or order of the labels. Evaluate the "
    "loaded model before the first step: its loss is that of the checkpoint."
)


def goes_on(log: Log) -> Verdict:
    return each_curve(log, "loss", lambda curve: _lost_at_resume(log, curve))


def is_soon(at: int, resumed: set[int]) -> bool:
    """Whether a jump at this index is of one of the resumptions."""
    return any(start <= at < start + SOME for start in resumed)


NOT_MATCHED = "keys-not-matched"


def is_lost(log: Log, loss: Curve) -> bool:
    return _lost_at_resume(log, loss).status in (Status.WARN, Status.FAIL)


def _lost_at_resume(log: Log, loss: Curve) -> Verdict:
    values, places = finite_of(loss)
    splits = [sum(0 < loss.lines[at] < line for at in places) for line in _resumptions(log, loss)]
    split = next((at for at in splits if 2 * SOME <= at <= len(values) - 2 * SOME), 0)
    before, after = values[:split], values[split:]
    if not split or is_of_policy(log, loss):
        return skip("no line between losses says that the run was resumed")
    first, last, again = (median(some) for some in (before[:SOME], before[-SOME:], after[:SOME]))
    gained = first - last
    if gained < LEARNED * abs(first) or min(after[:SOME]) - last < GONE * gained:
        return ok(f"the loss was {last:.4g} before the run was resumed, and {again:.4g} after it")
    between = range(loss.lines[places[split - 1]], loss.lines[places[split]])
    unmatched = (
        each for each in log.harmless if (each.name, each.path) == (NOT_MATCHED, loss.path)
    )
    # Together with keys that no tensor was loaded for, nobody can mean it.
    make = fail if any(x.line in between or x.last_line in between for x in unmatched) else warn
    return make(
        f"the loss was {last:.4g} before the run was resumed and is {again:.4g} after it; it had "
        f"begun at {first:.4g}",
        places=(place_at(loss, places[split]),),
    )

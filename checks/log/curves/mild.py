"""Symptoms too mild or too short for a warning by themselves: with a setting far outside of what is
usual they are one."""

from __future__ import annotations

import math
from collections.abc import Callable

from doctor._util.median import median
from doctor.checks.log import series
from doctor.checks.log.curves.learning import TWO_SIDES
from doctor.checks.log.curves.reading import (
    finite_of,
    improves_beside,
    learned_beside,
    place_at,
    runs_of,
    states,
    step_at,
    values_of,
)
from doctor.checks.log.curves.rewards import is_of_policy, stand
from doctor.facts.log import Curve, Log
from doctor.judge.check import Verdict, warn

WORSE, STILL = math.log(1.15), 0.025
"""By how much a loss ends above its lowest level, and by what share it falls at most. Our own
numbers."""
TENTH, JUMPS = 5, 1.5
"""Values of the shortest level, and the rise of a rate at a resumption. Our own numbers."""
RESUMED = "training-resumed"


def worse(log: Log) -> Verdict | None:
    """The last third of the loss, and its end, are certainly above its lowest tenth."""
    for loss in _losses(log):
        values, places = finite_of(loss)
        logs = series.logarithms(values)
        if logs is None:
            continue
        width = max(TENTH, len(logs) // 10)
        levels = [median(logs[at : at + width]) for at in range(0, len(logs) - width + 1, width)]
        lowest, final = min(levels), min(median(logs[-(len(logs) // 3) :]), median(logs[-width:]))
        noise = series.ERRORS * series.OF_MEDIAN * series.noise_of(logs) * math.sqrt(2 / width)
        if final - lowest > max(WORSE, noise):
            at = places[values.index(min(values))]
            return warn(
                f"the loss was {math.exp(lowest):.4g} near {step_at(loss, at)} and ends at "
                f"{math.exp(final):.4g}",
                places=(place_at(loss, at, "the lowest value"),),
            )
    return None


def still(log: Log) -> Verdict | None:
    """The loss falls by next to nothing from its first tenth to its last third."""
    for loss in _losses(log):
        if learned_beside(log, loss):
            continue
        values, places = finite_of(loss)
        first = median(values[: max(3, len(values) // 10)])
        final = median(values[-(len(values) // 3) :])
        if first > 0 and abs(first - final) < STILL * first:
            return warn(
                f"the loss hardly changes: {first:.4g} at first, {final:.4g} at last",
                places=(place_at(loss, places[0]),),
            )
    return None


def jumps(log: Log) -> Verdict | None:
    """The learning rate rises at once where the run is resumed, and no line says that it should."""
    if states(log, "restarts"):
        return None
    resumed = [each for each in log.harmless if each.name == RESUMED]
    for rate in (each for each in log.curves if each.name == "learning_rate"):
        values, lines = values_of(rate), [each.line for each in resumed if each.path == rate.path]
        for at in range(1, len(values) if rate.lines else 0):
            between = any(rate.lines[at - 1] < line < rate.lines[at] for line in lines)
            if between and values[at] > JUMPS * values[at - 1]:
                return warn(
                    f"the learning rate rises from {values[at - 1]:.3g} to {values[at]:.3g} at "
                    f"{step_at(rate, at)}, where the run was resumed",
                    places=(place_at(rate, at),),
                )
    return None


def moves_wrongly(log: Log) -> Verdict | None:
    """The learning rate stands still, warms up for the whole run, or falls to nothing and rises
    again more than once."""
    for rate in (each for each in log.curves if each.name == "learning_rate"):
        values = finite_of(rate)[0]
        if len(values) >= series.FEWEST and len(set(values)) == 1 and values[0] > 0:
            return warn(
                f"the learning rate is {values[0]:g} at all {rate.points:,} logged steps",
                places=(place_at(rate, 0),),
            )
        rises = values == sorted(values) and values[:1] < values[-1:]
        if len(values) >= series.FEWEST and rises and _warm_up_exceeds_run(log):
            return warn(
                f"the learning rate still rises at the last of {rate.points:,} logged steps",
                places=(place_at(rate, len(values) - 1),),
            )
        if states(log, "restarts"):
            continue
        highest = max(values, default=0)
        low, half = NOTHING * highest, highest / 2
        turns, fallen = [], False
        for at, value in enumerate(values):
            if fallen and value > half:
                turns.append(at)
            fallen = (fallen or value < low) and value <= half
        if len(turns) >= TWICE and values[0] > half:
            return warn(
                f"the learning rate falls to nothing and returns {len(turns)} times, first at "
                f"{step_at(rate, turns[0])}",
                places=(place_at(rate, turns[0]),),
            )
    return None


def _warm_up_exceeds_run(log: Log) -> bool:
    """Whether every stated warm-up is at least as long as every stated run, in steps."""
    warm, whole = (
        [each.number for each in log.stated if each.name == name and each.number]
        for name in ("warmup_steps", "max_steps")
    )
    return bool(warm and whole) and min(warm) >= max(whole)


NOTHING, TWICE = 0.02, 2
"""Part of the highest rate that is next to nothing, and returns from it that are no second run. Our
own numbers."""
OTHERS = ("gan", "control")
"""Ways of training whose losses may rise although all is well."""


def _losses(log: Log) -> list[Curve]:
    if any(each.name in TWO_SIDES for each in log.curves) or any(
        each.name == "method" and each.text in OTHERS for each in log.stated
    ):
        return []
    return [
        each
        for curve in log.curves
        for each in runs_of(log, curve)
        if each.name == "loss"
        and len(finite_of(each)[0]) >= series.FEWEST
        and min(finite_of(each)[0]) > 0
        and not improves_beside(log, each)
        and not is_of_policy(log, each)
    ]


MILD: dict[str, Callable[[Log], Verdict | None]] = {
    "loss-divergence": worse,
    "loss-plateau": still,
    "schedule-begins-anew": jumps,
    "learning-rate-zero": moves_wrongly,
    "rewards-alike": stand,
}
"""Check -> its symptom in a milder form."""

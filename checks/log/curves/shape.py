"""The shape of a curve: spikes, divergence, a learning rate of zero."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from doctor._util.median import median
from doctor.checks.log import series
from doctor.checks.log.curves.boundless import without_bound
from doctor.checks.log.curves.nonfinite import skips_all
from doctor.checks.log.curves.reading import (
    each_curve,
    finite_of,
    improves_beside,
    partner,
    place_at,
    states,
    step_at,
    too_few,
    values_of,
)
from doctor.checks.log.curves.resumed import is_lost, is_soon, resumed_at
from doctor.checks.log.curves.rewards import OF_POLICY, is_of_policy
from doctor.facts.log import Curve, Log
from doctor.judge.check import Status, Verdict, fail, note, ok, skip, warn

ROUNDED = 0.2
"""Share of a run in which a rate near its end may be printed as 0: with six digits, 2e-5 on a
cosine is below 5e-7 for its last tenth. Our own number."""
DECAYED = 0.2
"""Of the highest learning rate: below it a schedule is near its end. Our own number."""
ENOUGH = 5
"""Equal values that are no accident. Our own number."""


MARGIN = 10
"""One of so many values that is 0: no cross-entropy. Our own number."""
BELOW_ZERO = "it has values below 0, as the loss of a policy: its shape shows nothing"


def _without_shape(log: Log, loss: Curve) -> Verdict | None:
    """Why the shape of this loss shows nothing; None where it does."""
    if few := too_few(loss):
        return few
    if is_of_policy(log, loss):
        return skip(OF_POLICY)
    if values_of(loss).count(0.0) * MARGIN > len(loss.values):
        return skip("it is 0 at many steps, as where a margin is kept: its shape shows nothing")
    if states(log, "loss_weights"):
        return skip("the log says that the weights of the loss change: its level shows nothing")
    return skip(BELOW_ZERO) if min(finite_of(loss)[0], default=0.0) < 0 else None


def _unless_meant(log: Log, loss: Curve, verdict: Verdict) -> Verdict:
    """A note where the loss rises because the task does, or while an evaluation improves."""
    meant = (
        "the log says that the training goes in stages"
        if states(log, "stages")
        else "an evaluation is better than ever before"
        if improves_beside(log, loss)
        else ""
    )
    if not meant:
        return verdict
    return replace(verdict, status=Status.NOTE, summary=f"{verdict.summary}; {meant}")


SLOWER = (
    "Go back to a checkpoint about 100 steps before it, and go on with a lower learning rate (a "
    "fifth to a tenth of this one) and a longer warm-up; clip the gradient norm at 1.0. If it "
    "comes again, look at the batches there."
)


RESTORED = (
    "The run was resumed just before: look first at what was restored. Compare the loss of the "
    "first step with that before the checkpoint, and the missing and unexpected keys; restore the "
    "state of the optimizer, the schedule and the loss scale, and take the same data, tokenizer "
    "and batch. Resume once more from that checkpoint when it is found."
)


def no_spikes(log: Log) -> Verdict:
    return each_curve(log, "loss", lambda curve: _spikes(log, curve))


def _spikes(log: Log, loss: Curve) -> Verdict:
    if not_judged := _without_shape(log, loss):
        return not_judged
    values, places = finite_of(loss)
    spikes, resumed = series.spikes(values), resumed_at(log, loss)
    if resumed and is_lost(log, loss):
        spikes = [each for each in spikes if not is_soon(places[each.first], resumed)]
    if not spikes:
        return ok(f"no value of {loss.points:,} is far above those before it")
    severe = next((spike for spike in spikes if spike.severe), None)
    spike = severe or spikes[0]
    at = places[spike.first]
    warned = _warned(log, loss, at)
    high = _rate_of(log, loss, loss.steps[at]) if severe else ""
    summary = (
        f"the loss rises from {spike.typical:.4g} to {values[spike.first]:.4g} at "
        f"{step_at(loss, at)}"
        f"{f', up to {spike.value:.4g}' if spike.value > 1.01 * values[spike.first] else ''}"
        f"{', and does not come back' if severe else ''}{warned}{high}"
        f"{', where the run was resumed' if is_soon(at, resumed) else ''}"
        f"{f'; {len(spikes)} spikes' if len(spikes) > 1 else ''}"
    )
    recovered = all(each.recovered for each in spikes)
    found = tuple(place_at(loss, places[each.first]) for each in spikes[:10])
    make = fail if severe else note if recovered else warn
    fix = RESTORED if is_soon(at, resumed) else SLOWER if high else None
    verdict = make(summary, fix=fix, places=found)
    return _unless_meant(log, loss, certain(values, verdict))


def certain(values: list[float], verdict: Verdict) -> Verdict:
    """The verdict, or a note where the curve is too short for one."""
    if len(values) >= series.CERTAIN:
        return verdict
    summary = f"{verdict.summary}; {len(values)} values are too few to be certain"
    return replace(verdict, status=Status.NOTE, summary=summary)


def _warned(log: Log, loss: Curve, at: int) -> str:
    """Whether the gradient norm rose before the loss did."""
    norm = partner(log, loss, "grad_norm")
    if norm is None or loss.steps[at] not in norm.steps:
        return ""
    rose = series.rises_before(values_of(norm), norm.steps.index(loss.steps[at]))
    return "; the gradient norm rose before it" if rose else ""


def no_divergence(log: Log) -> Verdict:
    return each_curve(log, "loss", lambda curve: _divergence(log, curve))


def _divergence(log: Log, loss: Curve) -> Verdict:
    if boundless := without_bound(log, loss):
        return boundless
    if not_judged := _without_shape(log, loss):
        return not_judged
    if is_lost(log, loss):
        return skip("the loss was lost where the run was resumed: see LOG115")
    values, places = finite_of(loss)
    outcome, exploded = series.diverged(values), _explosion(log, loss, series.SMALLEST_WINDOW)
    # A cross-entropy that is lost ends at that of the words' frequencies, hardly 1.5 times higher.
    outcome = outcome or (series.lost(values) if exploded else None)
    if outcome is None and (exploded := _explosion(log, loss, series.FEWEST_EARLY)):
        before = sum(loss.steps[at] < exploded.step for at in places)
        outcome = series.ruined(values, before)
    if outcome is None:
        return ok("the loss ends near its lowest level, or within the noise of its values")
    lowest, final = outcome
    at = places[values.index(min(values))]
    diverged = fail(
        f"the loss was {lowest:.4g} near {step_at(loss, at)} and ends at {final:.4g}"
        f"{exploded.summary if exploded else ''}{_rate_of(log, loss)}",
        places=(place_at(loss, at, "the lowest value"),),
    )
    return _unless_meant(log, loss, diverged if exploded else certain(values, diverged))


@dataclass(frozen=True, slots=True)
class _Explosion:
    """That the gradient norm multiplied."""

    step: int
    summary: str


def _explosion(log: Log, loss: Curve, fewest: int) -> _Explosion | None:
    """After so many values of the gradient norm at least."""
    norm = partner(log, loss, "grad_norm")
    values, places = finite_of(norm) if norm else ([], [])
    at = series.exploded(values, fewest)
    if norm is None or at is None:
        return None
    usual, step = median(values[:at]), norm.steps[places[at]]
    rise = f"from {usual:.3g} to {max(values[at:]):.3g} from step {step:,} on"
    return _Explosion(step, f"; the gradient norm rose {rise}")


HIGH_RATE = 9e-4
"""From there on (1e-3, after a few steps of its decay) transformers need care, whatever their size.
Our own number."""


def _rate_of(log: Log, loss: Curve, until: float = math.inf) -> str:
    """What the learning rate up to a step says of a divergence."""
    rate = partner(log, loss, "learning_rate")
    finite = zip(*finite_of(rate), strict=True) if rate else ()
    values = [value for value, at in finite if rate is not None and rate.steps[at] <= until]
    if len(values) < ENOUGH or max(values) < HIGH_RATE:
        return ""
    start = ", its highest value, from the first logged step on: no warm-up"
    return (
        f"; the learning rate is {max(values):g}{start if values[0] == max(values) else ''} (large "
        "language models are trained with 1e-4 to 6e-4)"
    )


def rate_positive(log: Log) -> Verdict:
    return each_curve(
        log,
        "learning_rate",
        lambda curve: _spent(log, curve, values_of(curve)) or _rate(log, curve),
    )


def _rate(log: Log, rate: Curve) -> Verdict:
    values = values_of(rate)
    if any(values) and 0.0 not in values:
        return ok(f"the learning rate is above 0 at {rate.points:,} logged steps")
    if not any(values):
        return _always_zero(log, rate)
    first = next(at for at, value in enumerate(values) if value)
    zero = next((at for at, value in enumerate(values) if at > first and value == 0.0), None)
    if zero is None or _ends(values, zero):
        return ok("the learning rate is 0 only in the warm-up or at the schedule's end")
    if any(values[zero:]):
        again = "and above 0 again later, as in a schedule with restarts or a second run"
        text = f"the learning rate is 0 at {step_at(rate, zero)}, {again}"
        return note(text, places=(place_at(rate, zero),))
    if zero == len(values) - 1:
        return skip("the learning rate is 0 at the last logged step alone: nothing follows it")
    is_short = _is_short(values)
    if len(values) - zero <= ROUNDED * len(values) and _decays(values, zero) and is_short:
        return ok("the learning rate is printed as 0 near the schedule's end: too few digits")
    make = note if is_short and _is_last_digit(values, zero) else fail
    return make(
        f"the learning rate is 0 from {step_at(rate, zero)} to the end, at {len(values) - zero:,} "
        f"logged steps{'; or it is smaller than what is printed' if make is note else ''}",
        places=(place_at(rate, zero),),
    )


def _always_zero(log: Log, rate: Curve) -> Verdict:
    if len(rate.values) < 3:
        return skip("the learning rate is 0 at the first logged steps, as in a warm-up")
    if any(each.name == "scaler-collapse" and each.path == rate.path for each in log.events):
        return skip("the loss scale collapsed: no step moves the schedule")
    if skips_all(log, rate):
        return skip("no gradient is finite, so that no step moves the schedule: see LOG092")
    if _improves(partner(log, rate, "loss")):
        return skip("the learning rate is printed as 0 and the loss falls: too few digits")
    norm = partner(log, rate, "grad_norm")
    return fail(
        f"the learning rate is 0 at all {rate.points:,} logged steps",
        fix=None if norm is None or any(norm.values) else NOT_STEPPED,
        places=(place_at(rate, 0),),
    )


NOT_STEPPED = (
    "The gradient norm is 0, too, so perhaps no step was taken, and the schedule waits for one. "
    "Count the batches of the run: with fewer than gradient_accumulation_steps there is no step. "
    "See that the batches have labels (all -100 give no gradient) and that parameters require "
    "gradients (SMK007). In fp16 the loss scaler skips steps until its scale fits: bf16 has none, "
    "and initial_scale_power starts lower in DeepSpeed. Where steps are taken, print what the "
    "scheduler was built for."
)


SPENT, HALFWAY = 5e-3, 0.5
"""Share of the highest rate, and part of a run, by which no schedule is over: a cosine is at half
of it, steps of a tenth come later. Our own numbers."""


def _spent(log: Log, rate: Curve, values: list[float]) -> Verdict | None:
    """A rate that fell to nothing early, after which the loss does not improve."""
    half = int(len(values) * HALFWAY)
    loss = partner(log, rate, "loss")
    losses = finite_of(loss)[0] if loss is not None else []
    if min(len(values), len(losses)) < series.FEWEST:
        return None
    later, middle = values[half:], len(losses) // 2
    if not 0 < max(later) < SPENT * max(values) or values[0] < DECAYED * max(values):
        return None
    tenth = max(3, len(losses) // 10)
    before, after = median(losses[middle - tenth : middle]), median(losses[-tenth:])
    if before <= 0 or after < (1 - series.FLAT_TOTAL) * before:
        return None
    return warn(
        f"the learning rate fell from {max(values):.3g} to {max(later):.2g} in the first half, and "
        "the loss does not improve after it",
        fix=STEPPED,
        places=(place_at(rate, half),),
    )


STEPPED = (
    "The schedule is stepped more often than it was built for: an ExponentialLR, StepLR or gamma "
    "per epoch whose scheduler.step() runs at every batch. Call it once per epoch, or build it for "
    "the number of batches (gamma ** (1 / batches))."
)


def _improves(loss: Curve | None) -> bool:
    values = finite_of(loss)[0] if loss is not None else []
    return len(values) >= 3 and values[-1] < (1 - series.FLAT_TOTAL) * values[0]


def _ends(values: list[float], zero: int) -> bool:
    """Whether a schedule decays to zero here, and the run ends with it."""
    return _decays(values, zero) and len(values) - zero <= max(2, len(values) // 20)


def _is_short(values: list[float]) -> bool:
    """Whether all values are multiples of one decimal, so that smaller ones are printed as 0."""
    digit = 10.0 ** round(math.log10(min(value for value in values if value)))
    return all(abs(value / digit - round(value / digit)) < 1e-6 for value in values)


def _is_last_digit(values: list[float], zero: int) -> bool:
    """Whether the rate before it is tiny and one unit of its last digit, and as many rows stand
    before: the end of a schedule, of which the log has no more."""
    last = values[zero - 1]
    return 0 < last < TINY and last == 10 ** round(math.log10(last)) and 2 * zero >= len(values)


TINY = 1e-5
"""A rate from which on one unit of the last digit is no rounding. Our own number."""


def _decays(values: list[float], zero: int) -> bool:
    """Whether the rate before a zero is small, or falls as much as before: a line or a cosine."""
    if zero < 2:
        return False
    before, last = values[zero - 2], values[zero - 1]
    return last < max(values[:zero]) * DECAYED or last <= LIKE_BEFORE * (before - last)


LIKE_BEFORE = 1.1
"""A last fall by the one before it: equal on a line, less at the end of a cosine; rates are rounded
in a log. Our own number."""

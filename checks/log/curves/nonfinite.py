"""Values that are NaN or infinite, and what the learning rate tells about them."""

from __future__ import annotations

import math
from itertools import pairwise, takewhile

from doctor._util.median import median
from doctor.checks.log import series
from doctor.checks.log.curves.reading import each_curve, partner, place_at, step_at, values_of
from doctor.facts.log import Curve, Log
from doctor.judge.check import Status, Verdict, fail, note, ok, skip, warn

HUGE = 1e9
"""A loss that no training has for long. Our own number."""
MOST_OVERCOME = 3
"""Non-finite losses that a loss scaler's calibration explains."""
SKIPS_IN_A_ROW = 10
"""Falls of the scale after the start, which no calibration explains. Our own number."""
CALIBRATION = 16
"""Steps from the first one on that a loss scaler skips until its scale fits: halvings of 65536."""
ENOUGH, AT_ONCE = 5, 50
"""Gradient norms that show what is usual, and by what the last one before a NaN is above their
median, which is no accident. Our own numbers."""
FAR_APART = 2
"""Infinite norms in a row after the start: a scale that grew too large overflows once."""


def hidden_nan(log: Log) -> Verdict:
    return each_curve(log, "loss", lambda curve: _hidden_nan(log, curve))


def _hidden_nan(log: Log, loss: Curve) -> Verdict:
    norm = partner(log, loss, "grad_norm")
    if norm is None:
        return skip("the log has no gradient norm beside the loss")
    norms = dict(zip(norm.steps, norm.values, strict=True))
    hidden = [
        at
        for at, (step, value) in enumerate(zip(loss.steps, loss.values, strict=True))
        if float(value) == 0.0 and step in norms and not math.isfinite(float(norms[step]))
    ]
    if not hidden:
        return ok(f"no loss of 0.0 with a non-finite gradient norm in {loss.points:,} values")
    rate, at = partner(log, loss, "learning_rate"), loss.steps[hidden[0]]
    since = next((step for step, _ in reversed(_norms_before(norm, at))), at)
    begins = rate is not None and since == norm.steps[0] and rate.values[0] == 0.0
    return fail(
        f"loss 0.0 and gradient norm {norms[at]} from {step_at(loss, hidden[0])} "
        f"on, at {len(hidden):,} logged steps: the Trainer shows a NaN loss as 0.0"
        f"{_norm_before(log, loss, hidden[0])}",
        fix=_of_rate(log, rate)
        + _after_nan(rate, since, 0 if begins else hidden[0], len(loss.values)),
        places=(place_at(loss, hidden[0]),),
    )


UNCLEAR = (
    "Look for NaN in the weights that were saved last: `doctor scan --deep CHECKPOINT`. If there "
    "is none, they are intact; if it trains in fp16, the scaler skipped the steps: train in bf16, "
    "or load fp32 weights under fp16 autocast. Else go back to a checkpoint before, and lower the "
    "learning rate. The learning rate of these rows does not show which it is."
)
WITHOUT_RATE = (
    "Go back to the last checkpoint without NaN (`doctor scan --deep CHECKPOINT` finds it in saved "
    "weights) or, where there is none, to the start, and go on with a lower learning rate, and in "
    "bf16 if it was fp16. If the loss is NaN at the same step again, look at the batches there; "
    "log the gradient norm and the learning rate, which show whether steps were taken with NaN."
)
"""Of a log that names no learning rate."""


FROM_THE_START = (
    "Not finite from the first logged steps on, so no weights of this run are sound: start again "
    "in bf16, or fp32 on GPUs without it. In fp16 models of the T5 family and the VAE of SDXL "
    "overflow at any learning rate (keep the VAE in fp32, or take madebyollin/sdxl-vae-fp16-fix). "
    "In bf16 already: the data of the first batch, and the weights that were loaded."
)


HIGH = 5e-3
"""A learning rate from which on Adam diverges in most models; SGD for pictures takes up to 0.5, but
with losses that stay finite. Our own number."""


GROWN, BEYOND_ALL = 10, 100
"""By what a learning rate grew to its highest value, which no warm-up reaches for any optimizer.
Our own numbers."""


def _of_rate(log: Log, rate: Curve | None) -> str:
    """That the learning rate is the likely reason."""
    values = [value for value in values_of(rate) if math.isfinite(value)] if rate else []
    if not values or max(values) < HIGH:
        return ""
    first, high = values[0], max(values)
    if high >= BEYOND_ALL and high >= GROWN * first > 0:
        return (
            f"The learning rate grows from {first:g} to {high:g}, too high for any optimizer: "
            "correct the schedule that raises it, and start again from the weights before this "
            "run. "
        )
    named = [each.text.casefold() for each in log.stated if each.name == "optimizer"]
    if named and not any("adam" in each for each in named):
        return ""
    return (
        f"The learning rate is {high:g}: far too high {'for' if named else 'where it is'} Adam "
        "(1e-5 to 5e-5 fine-tunes, 1e-4 to 5e-4 trains LoRA or from scratch); look for a missing "
        "minus in the exponent, and start again from the weights before this run. "
    )


A_PART = 3
"""Values of a log that may be rows from the middle of a run. Our own number."""


def _after_nan(rate: Curve | None, since: int, at: int, values: int) -> str:
    """The remedy, by whether values came before and whether the optimizer went on stepping."""
    if not at and values > A_PART:
        return FROM_THE_START
    if rate is None:
        return WITHOUT_RATE
    stepping = _is_stepping(rate, since)
    if stepping is None:
        return UNCLEAR
    if not stepping:
        return (
            "The learning rate stands still, so the fp16 GradScaler skips every step and the "
            "weights are intact: train in bf16, or load fp32 weights under fp16 autocast; then "
            "look for the layer that overflows."
        )
    return (
        "The optimizer stepped with NaN gradients, so the weights are lost: go back to a "
        "checkpoint before this step, use bf16 with fp32 weights, lower the learning rate, and "
        "look for the batch or the layer with torch.autograd.set_detect_anomaly(True)."
    )


def _is_stepping(rate: Curve | None, since: int) -> bool | None:
    """Whether the learning rate moves from a step on; None where it does not tell.

    A constant schedule stands still as well: only one that moved before, or that is still at the 0
    of a warm-up, stands still because the optimizer does.
    """
    pairs = [] if rate is None else list(zip(rate.steps, values_of(rate), strict=True))
    before = {value for step, value in pairs if step < since}
    later = [value for step, value in pairs if step >= since]
    if len(later) < 2:
        return None
    if len(set(later)) > 1:
        return True
    return False if len(before) > 1 or later[0] == 0.0 else None


def finite(log: Log) -> Verdict:
    name = "loss" if any(curve.name == "loss" for curve in log.curves) else "mean_loss"
    verdict = each_curve(log, name, lambda curve: _nonfinite_loss(log, curve))
    runs = [_first_nonfinite(curve) for curve in log.curves if curve.name == name]
    steps = {step for step in runs if step is not None}
    separate = all(file.rank is None for file in log.files)
    if verdict.places and len(runs) == 2 and None not in runs and separate:
        comparison = (
            f"; both logs at step {steps.pop():,}: with one seed that points to the data"
            if len(steps) == 1
            else "; at different steps in the two logs: numerics or the learning rate, not the data"
        )
        return Verdict(
            verdict.status, verdict.summary + comparison, fix=verdict.fix, places=verdict.places
        )
    return verdict


def _first_nonfinite(curve: Curve) -> int | None:
    values = zip(curve.steps, values_of(curve), strict=True)
    return next((step for step, value in values if not math.isfinite(value)), None)


AGAIN = (
    "The loss is finite after it, so the weights hold no NaN. In fp16 the scaler skips such a "
    "step; else look at the batch of that step: labels that are all ignored, empty samples, NaN in "
    "the inputs."
)


def _nonfinite_loss(log: Log, loss: Curve) -> Verdict:
    values = values_of(loss)
    bad = [at for at, value in enumerate(values) if not math.isfinite(value)]
    if not bad:
        return ok(f"the loss is finite at {loss.points:,} logged steps")
    places = (place_at(loss, bad[0]),)
    summary = f"the loss is {loss.values[bad[0]]} at {step_at(loss, bad[0])}, {len(bad):,} times"
    summary += _norm_before(log, loss, bad[0])
    if bad[0] and values[bad[0] - 1] >= HUGE:
        summary += f"; it was {values[bad[0] - 1]:.3g} just before"
    if math.isfinite(values[-1]) and len(bad) <= MOST_OVERCOME:
        later = f"{summary}; it was finite again later"
        return note(later) if bad[-1] < len(bad) else warn(later, fix=AGAIN, places=places)
    rate, since = partner(log, loss, "learning_rate"), loss.steps[bad[0]]
    unstable = _unstable_before(log, loss, bad[0]) if _is_stepping(rate, since) is not False else ""
    after = UNSTABLE if unstable else _after_nan(rate, since, bad[0], len(values))
    of_rate = _of_rate(log, rate)
    fix = of_rate.strip() if of_rate and after is UNCLEAR else of_rate + after
    return fail(summary + unstable, fix=fix, places=places)


def _norm_before(log: Log, loss: Curve, at: int) -> str:
    """That the gradient norm was not finite before the loss, with nothing finite in between."""
    norm = partner(log, loss, "grad_norm")
    run = _norms_before(norm, loss.steps[at])
    return f"; the gradient norm was {run[-1][1]} from step {run[-1][0]:,} on" if run else ""


def _norms_before(norm: Curve | None, end: int) -> list[tuple[int, float]]:
    """Steps and gradient norms just before a step that are not finite, the last one first."""
    pairs = [] if norm is None else list(zip(norm.steps, values_of(norm), strict=True))
    before = [(step, value) for step, value in pairs if step < end]
    return list(takewhile(lambda pair: not math.isfinite(pair[1]), reversed(before)))


UNSTABLE = (
    "The training was unstable before it was NaN: go back to a checkpoint before the gradient norm "
    "rose, and go on with a third of the learning rate and a longer warm-up; clip the norm at 1.0. "
    "If it rises at the same step again, look at the batches there."
)


def _unstable_before(log: Log, loss: Curve, at: int) -> str:
    """That the gradient norm multiplied while the loss was still finite, and did not come back."""
    norm = partner(log, loss, "grad_norm")
    pairs = [] if norm is None else list(zip(norm.steps, values_of(norm), strict=True))
    before = [pair for pair in pairs if pair[0] < loss.steps[at] and math.isfinite(pair[1])]
    usual = median([value for _, value in before] or [0.0])
    high = list(takewhile(lambda pair: pair[1] > series.EXPLODED * usual, reversed(before)))
    last = high[0][1] if high else 0.0
    if len(before) <= ENOUGH or not usual or not (len(high) >= 3 or last > AT_ONCE * usual):
        return ""
    return f"; the gradient norm rose from {usual:.3g} to {last:.3g} from step {high[-1][0]:,} on"


def stepping(log: Log) -> Verdict:
    return each_curve(log, "grad_norm", lambda curve: _stepping(log, curve))


def _stepping(log: Log, norm: Curve) -> Verdict:
    """Whether the gradient norm stays finite. A learning rate that moves proves no step: many
    programs move it when the scaler skips."""
    if Status.FAIL in (hidden_nan(log).status, finite(log).status):
        return skip("the loss is not finite either: see LOG090 and LOG091")
    run = _longest_run([not math.isfinite(value) for value in values_of(norm)])
    if run is None:
        return ok(f"the gradient norm is finite at {norm.points:,} logged steps")
    first, end = run
    count, steps = end - first, _steps_of(norm, first, end)
    rate = partner(log, norm, "learning_rate")
    frozen = _is_stepping(rate, norm.steps[first]) is False
    trace = " and the learning rate stands still: the loss scaler skips" if frozen else ""
    summary = (
        f"the gradient norm is {norm.values[first]} for {count:,} of {norm.points:,} values from "
        f"{step_at(norm, first)} on{trace}"
    )
    places = (place_at(norm, first),)
    fix = _goes_on(log, norm, first) or _after_nan(rate, norm.steps[first], first, len(norm.values))
    if count > 1 and (steps > CALIBRATION or (count >= SKIPS_IN_A_ROW and first > 0)):
        return fail(summary, fix=fix, places=places)
    if first == 0 and end < len(norm.values):
        return note(f"{summary}: a loss scaler that is calibrated; with bf16 there is none")
    if count < FAR_APART and end < len(norm.values):
        return note(f"{summary}; with fp16 the loss scaler skips such a step")
    reason = "only an fp16 loss scaler explains so few"
    if count == len(norm.values):
        reason = "no value is finite, which only the first steps of an fp16 loss scaler explain"
    return warn(f"{summary}; {reason}", fix=fix, places=places)


GOES_ON = (
    "The loss is finite after it, so the weights hold no NaN: an fp16 scaler skips such steps, or "
    "the norm alone overflowed (take it of unscaled gradients, in fp32). Where many are skipped, "
    "train in bf16, or load fp32 weights under fp16 autocast, and lower the learning rate; "
    "torch.autograd.set_detect_anomaly(True) names the layer."
)


def _goes_on(log: Log, norm: Curve, first: int) -> str:
    """The remedy where losses of later rows show that the weights are intact."""
    loss = partner(log, norm, "loss")
    pairs = [] if loss is None else zip(loss.steps, values_of(loss), strict=True)
    later = [value for step, value in pairs if step > norm.steps[first]]
    intact = all(map(math.isfinite, later)) and any(later)
    return GOES_ON if intact else ""


def skips_all(log: Log, curve: Curve) -> bool:
    """Whether no gradient norm beside a curve is finite, so that a loss scaler skips every step."""
    norm = partner(log, curve, "grad_norm")
    return (
        norm is not None
        and len(norm.values) >= SKIPS_IN_A_ROW
        and not any(math.isfinite(value) for value in values_of(norm))
    )


def _steps_of(norm: Curve, first: int, end: int) -> int:
    """Training steps that the values of a run stand for, with those between the logged ones."""
    step = norm.steps[0] if len(norm.steps) < 2 else norm.steps[1] - norm.steps[0]
    return norm.steps[end - 1] - norm.steps[first] + max(1, step)


def _longest_run(flags: list[bool]) -> tuple[int, int] | None:
    """The start and the end of the longest run of True."""
    best, start = (0, 0), None
    for at, flag in enumerate([*flags, False]):
        if flag and start is None:
            start = at
        elif not flag and start is not None:
            best = max(best, (start, at), key=lambda run: run[1] - run[0])
            start = None
    return best if best[1] else None


def scale_holds(log: Log) -> Verdict:
    skipped = each_curve(log, "skipped_steps", _skips)
    return (
        skipped
        if skipped.status is Status.FAIL
        else each_curve(log, "loss_scale", lambda curve: _scale(log, curve))
    )


MOSTLY, ROWS = 0.5, 10
"""Share of the logged rows, and their number, in which steps were skipped. Our own numbers."""
LEARNS = 0.9
"""Share of its first level that a loss falls to whose steps move the weights. Our own number."""


def _skips(skipped: Curve) -> Verdict:
    """What Megatron prints: how many steps since the row before were skipped."""
    values = values_of(skipped)
    with_any = [at for at, value in enumerate(values) if value > 0]
    if len(with_any) < max(ROWS, MOSTLY * len(values)):
        return ok(f"steps were skipped in {len(with_any):,} of {len(values):,} logged rows")
    return fail(
        f"steps are skipped in {len(with_any):,} of {len(values):,} logged rows: gradients are not "
        "finite",
        places=(place_at(skipped, with_any[0]),),
    )


def _always_0(log: Log, scale: Curve) -> Verdict:
    """A scale of 0 in the rows of the loss: no step moves a weight. Elsewhere it is a setting."""
    loss = partner(log, scale, "loss")
    shared = [] if loss is None else [step for step in scale.steps if step in set(loss.steps)]
    if loss is None or len(shared) < ROWS:
        return ok("the log states a loss scale of 0, and logs none beside the loss")
    early, late = series.thirds([each for each in values_of(loss) if math.isfinite(each)] or [0.0])
    summary, places = f"the loss scale is 0 at {len(shared):,} steps", (place_at(scale, 0),)
    if late < LEARNS * early:
        return note(f"{summary}, and the loss falls: no scaler is in use", places=places)
    return fail(f"{summary}; at least 1 is needed", places=places)


def _scale(log: Log, scale: Curve) -> Verdict:
    """A scale of 0 at first is a setting, if it moves later: it is to be found; below 0 it stands
    for none."""
    values = values_of(scale)
    moved = next((at for at, value in enumerate(values) if value), len(values))
    if moved == len(values):
        return _always_0(log, scale)
    low = next((at for at, value in enumerate(values) if 0 <= value < 1 and at >= moved), None)
    if low is not None:
        return fail(
            f"the loss scale fell to {values[low]:g} at {step_at(scale, low)}; at least 1 is "
            f"needed",
            places=(place_at(scale, low),),
        )
    falls = [later < earlier for earlier, later in pairwise(values)]
    run = _longest_run(falls)
    if run and run[1] - run[0] >= (CALIBRATION if run[0] == 0 else SKIPS_IN_A_ROW):
        return fail(
            f"{run[1] - run[0]:,} steps in a row overflowed: the loss scale fell from "
            f"{values[run[0]]:g} to {values[run[1]]:g}",
            places=(place_at(scale, run[0] + 1),),
        )
    return ok(f"the loss scale is {min(values):g} or higher at {scale.points:,} logged steps")

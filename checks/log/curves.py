"""The curves of a training: loss, gradient norm, learning rate, loss scale, throughput."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from doctor.checks.log import series
from doctor.facts.log import Curve, Log
from doctor.judge.check import Check, Owner, Verdict, fail, ok, skip, warn
from doctor.judge.combine import worst
from doctor.judge.place import Place

SLOWER = 0.7
"""Share of the early throughput below which it is reported. Our own number."""
MOST_OVERCOME = 3
"""Non-finite gradient norms that a loss scaler's calibration explains."""
SKIPS_IN_A_ROW = 10
CALIBRATION = 16
"""Halvings from 65536, or from 2**32, until a scale fits."""


def _values(curve: Curve) -> list[float]:
    return [float(value) for value in curve.values]


def _finite(curve: Curve) -> tuple[list[float], list[int]]:
    """The finite values, and their indices."""
    pairs = [(value, at) for at, value in enumerate(_values(curve)) if math.isfinite(value)]
    return [value for value, _ in pairs], [at for _, at in pairs]


def _place(curve: Curve, at: int, message: str = "") -> Place:
    text = f"{curve.name} {curve.values[at]} at step {curve.steps[at]}"
    line = curve.lines[at] if curve.lines else 0
    return Place(path=curve.path, line=line, rank=curve.rank, text=text, message=message)


def _step(curve: Curve, at: int) -> str:
    return f"step {curve.steps[at]:,} ({curve.path})"


def _each(log: Log, name: str, judge: Callable[[Curve], Verdict]) -> Verdict:
    """The worst verdict over the curves of a metric, with the places of all."""
    verdicts = [judge(curve) for curve in log.curves if curve.name == name and curve.values]
    if not verdicts:
        return skip(f"the log has no {name.replace('_', ' ')}")
    if len(verdicts) == 1:
        return verdicts[0]
    combined = worst(*verdicts)
    alike = [each for each in verdicts if each.status is combined.status]
    places = tuple(place for each in alike for place in each.places)
    more = f" (and in {len(alike) - 1:,} more)" if len(alike) > 1 else ""
    return Verdict(
        combined.status,
        alike[0].summary + more,
        fix=alike[0].fix,
        owner=combined.owner,
        places=places[:20],
    )


def _few(curve: Curve) -> Verdict | None:
    if len(curve.values) < series.FEWEST:
        return skip(f"{len(curve.values)} values; fewer than {series.FEWEST} are not judged")
    return None


def _partner(log: Log, curve: Curve, name: str) -> Curve | None:
    """The curve of another metric from the same file."""
    return next(
        (each for each in log.curves if each.name == name and each.path == curve.path), None
    )


# Loss 0.0 with a NaN gradient norm


def hidden_nan(log: Log) -> Verdict:
    return _each(log, "loss", lambda curve: _hidden_nan(log, curve))


def _hidden_nan(log: Log, loss: Curve) -> Verdict:
    norm = _partner(log, loss, "grad_norm")
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
    rate = _partner(log, loss, "learning_rate")
    return fail(
        f"loss 0.0 and gradient norm {norms[loss.steps[hidden[0]]]} from {_step(loss, hidden[0])} "
        f"on, at {len(hidden):,} logged steps: the Trainer shows a NaN loss as 0.0",
        fix=_after_nan(rate, loss.steps[hidden[0]]),
        places=(_place(loss, hidden[0]),),
    )


UNCLEAR = (
    "If the learning rate stands still from here on, the fp16 scaler skips every step and the "
    "weights are intact: train in bf16, or load fp32 weights under fp16 autocast. If it moves, the "
    "weights are lost: go back to a checkpoint before, and lower the learning rate."
)


def _after_nan(rate: Curve | None, since: int) -> str:
    """The remedy, by whether the optimizer went on stepping."""
    rates = () if rate is None else tuple(zip(rate.steps, _values(rate), strict=True))
    later = [value for step, value in rates if step >= since]
    if len(later) < 2:
        return UNCLEAR
    if len(set(later)) == 1:
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


# Loss or gradient norm NaN or infinite


def finite(log: Log) -> Verdict:
    verdict = _each(log, "loss", lambda curve: _nonfinite_loss(log, curve))
    runs = [_first_nonfinite(curve) for curve in log.curves if curve.name == "loss"]
    steps = {step for step in runs if step is not None}
    separate = all(file.rank is None for file in log.files)
    if verdict.places and len(runs) == 2 and None not in runs and separate:
        told = (
            f"; both logs at step {steps.pop():,}: with one seed that points to the data"
            if len(steps) == 1
            else "; at different steps in the two logs: numerics or the learning rate, not the data"
        )
        return Verdict(
            verdict.status, verdict.summary + told, fix=verdict.fix, places=verdict.places
        )
    return verdict


def _first_nonfinite(curve: Curve) -> int | None:
    values = zip(curve.steps, _values(curve), strict=True)
    return next((step for step, value in values if not math.isfinite(value)), None)


def _nonfinite_loss(log: Log, loss: Curve) -> Verdict:
    values = _values(loss)
    bad = [at for at, value in enumerate(values) if not math.isfinite(value)]
    if not bad:
        return ok(f"the loss is finite at {loss.points:,} logged steps")
    places = (_place(loss, bad[0]),)
    summary = f"the loss is {loss.values[bad[0]]} at {_step(loss, bad[0])}, {len(bad):,} times"
    if math.isfinite(values[-1]) and len(bad) <= MOST_OVERCOME:
        return warn(f"{summary}; it was finite again later", places=places)
    rate = _partner(log, loss, "learning_rate")
    return fail(summary, fix=_after_nan(rate, loss.steps[bad[0]]), places=places)


# The learning rate stands still while the gradient norm is not finite


def stepping(log: Log) -> Verdict:
    return _each(log, "grad_norm", lambda curve: _stepping(log, curve))


def _stepping(log: Log, norm: Curve) -> Verdict:
    values = _values(norm)
    run = _longest_run([not math.isfinite(value) for value in values])
    if run is None or run[1] - run[0] < SKIPS_IN_A_ROW:
        return ok(
            f"the gradient norm is finite, or only for a few of {norm.points:,} values is not"
        )
    rate = _partner(log, norm, "learning_rate")
    frozen = rate is not None and _frozen(rate, norm.steps[run[0]], norm.steps[run[1] - 1])
    trace = " and the learning rate stands still: the loss scaler skips" if frozen else ""
    return fail(
        f"the gradient norm is {norm.values[run[0]]} for {run[1] - run[0]:,} values from "
        f"{_step(norm, run[0])} on{trace}",
        fix=_after_nan(rate, norm.steps[run[0]]),
        places=(_place(norm, run[0]),),
    )


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


def _frozen(rate: Curve, first: int, last: int) -> bool:
    within = {value for step, value in zip(rate.steps, _values(rate), strict=True)
              if first <= step <= last}  # fmt: skip
    return len(within) == 1


# The loss scale


def scale_holds(log: Log) -> Verdict:
    return _each(log, "loss_scale", _scale)


def _scale(scale: Curve) -> Verdict:
    values = _values(scale)
    low = next((at for at, value in enumerate(values) if value < 1), None)
    if low is not None:
        return fail(
            f"the loss scale fell to {values[low]:g} at {_step(scale, low)}; at least 1 is needed",
            places=(_place(scale, low),),
        )
    falls = [later < earlier for earlier, later in zip(values, values[1:], strict=False)]
    run = _longest_run(falls)
    if run and run[1] - run[0] >= (CALIBRATION if run[0] == 0 else SKIPS_IN_A_ROW):
        return fail(
            f"{run[1] - run[0]:,} steps in a row overflowed: the loss scale fell from "
            f"{values[run[0]]:g} to {values[run[1]]:g}",
            places=(_place(scale, run[0] + 1),),
        )
    return ok(f"the loss scale is {min(values):g} or higher at {scale.points:,} logged steps")


# Spikes, divergence, plateau


def no_spikes(log: Log) -> Verdict:
    return _each(log, "loss", lambda curve: _spikes(log, curve))


def _spikes(log: Log, loss: Curve) -> Verdict:
    if few := _few(loss):
        return few
    values, places = _finite(loss)
    found = series.spikes(values)
    if not found:
        return ok(f"no value of {loss.points:,} is far above those before it")
    severe = next((spike for spike in found if spike.severe), None)
    spike = severe or found[0]
    at = places[spike.first]
    warned = _warned(log, loss, at)
    summary = (
        f"the loss rises from {spike.typical:.4g} to {spike.value:.4g} at {_step(loss, at)}"
        f"{', and does not come back' if severe else ''}{warned}"
        f"{f'; {len(found)} spikes' if len(found) > 1 else ''}"
    )
    make = fail if severe else warn
    return make(summary, places=tuple(_place(loss, places[each.first]) for each in found[:10]))


def _warned(log: Log, loss: Curve, at: int) -> str:
    """Whether the gradient norm rose before the loss did."""
    norm = _partner(log, loss, "grad_norm")
    if norm is None or loss.steps[at] not in norm.steps:
        return ""
    rose = series.rises_before(_values(norm), norm.steps.index(loss.steps[at]))
    return "; the gradient norm rose before it" if rose else ""


def no_divergence(log: Log) -> Verdict:
    return _each(log, "loss", _divergence)


def _divergence(loss: Curve) -> Verdict:
    if few := _few(loss):
        return few
    values, places = _finite(loss)
    outcome = series.diverged(values)
    if outcome is None:
        return ok("the loss ends near its lowest level")
    lowest, final = outcome
    at = places[values.index(min(values))]
    return fail(
        f"the loss was {lowest:.4g} near {_step(loss, at)} and ends at {final:.4g}",
        places=(_place(loss, at, "the lowest value"),),
    )


def progress(log: Log) -> Verdict:
    return _each(log, "loss", _progress)


def _progress(loss: Curve) -> Verdict:
    values, places = _finite(loss)
    if len(values) >= 5 and len(set(values)) == 1:
        if values[0] == 0.0:
            return skip("the loss is 0 at every step, as with GRPO; the rewards tell the progress")
        return warn(
            f"the loss is {values[0]:g} at all {loss.points:,} logged steps",
            places=(_place(loss, places[0]),),
        )
    if few := _few(loss):
        return few
    if series.is_flat(values):
        return warn(
            f"the loss hardly changes: {values[0]:.4g} at first, {values[-1]:.4g} at last",
            places=(_place(loss, places[-1]),),
        )
    return ok(f"the loss went from {values[0]:.4g} to {values[-1]:.4g}")


# The learning rate and the throughput


def rate_positive(log: Log) -> Verdict:
    return _each(log, "learning_rate", _rate)


def _rate(rate: Curve) -> Verdict:
    values = _values(rate)
    if any(values) and 0.0 not in values:
        return ok(f"the learning rate is above 0 at {rate.points:,} logged steps")
    if not any(values):
        if len(values) < 3:
            return skip("the learning rate is 0 at the first logged steps, as in a warm-up")
        return fail(
            f"the learning rate is 0 at all {rate.points:,} logged steps",
            places=(_place(rate, 0),),
        )
    first = next(at for at, value in enumerate(values) if value)
    zero = next((at for at, value in enumerate(values) if at > first and value == 0.0), None)
    if zero is None or _ends(values, zero):
        return ok("the learning rate is 0 only in the warm-up or at the schedule's end")
    return fail(
        f"the learning rate is 0 from {_step(rate, zero)} on, for {len(values) - zero:,} more "
        "logged steps",
        places=(_place(rate, zero),),
    )


def _ends(values: list[float], zero: int) -> bool:
    """Whether a schedule decays to zero here, and the run ends with it."""
    decays = zero > 1 and values[zero - 1] < max(values[:zero]) * 0.2
    return decays and len(values) - zero <= max(2, len(values) // 20)


def throughput_holds(log: Log) -> Verdict:
    return _each(log, "throughput", _throughput)


def _throughput(curve: Curve) -> Verdict:
    if few := _few(curve):
        return few
    values, places = _finite(curve)
    lower = series.fell(values, SLOWER)
    if lower is None:
        return ok("the throughput is as high at the end as at the start")
    early, late = lower
    return warn(
        f"the throughput fell from {early:.4g} to {late:.4g}; at least {SLOWER:.0%} of the early "
        "value expected",
        places=(_place(curve, places[-1]),),
    )


NUMERICS = (
    "Train in bf16 with fp32 weights, clip the gradient norm, lower the learning rate or lengthen "
    "the warm-up, and go back to a checkpoint before the step that is named."
)


def _check(code: str, slug: str, judge: Callable[..., Verdict], **fields: object) -> Check:
    return Check(code=code, slug=slug, judge=judge, owner=Owner.JOB, **fields)  # type: ignore[arg-type]


def _checks() -> Iterator[Check]:
    yield _check(
        "LOG090",
        "loss-zero-gradnorm-nan",
        hidden_nan,
        title="No loss of 0.0 hides a NaN",
        why="The Trainer replaces a NaN loss by the mean of the values before it, which after some "
        "steps is 0.0; the gradient norm shows the truth. A learning rate that stands still means "
        "that the fp16 scaler skips each step, one that moves that the weights are lost.",
        passes=("no logged loss is 0.0 while the gradient norm is NaN or infinite",),
        fails=("a loss of exactly 0.0 is logged with a NaN or infinite gradient norm",),
        fix=NUMERICS,
        commands=("doctor run --only SMK002,NUM001",),
        sources=("transformers-31997", "cbl-root"),
        limits="that the loss was finite between the logged steps.",
    )
    yield _check(
        "LOG091",
        "loss-nonfinite",
        finite,
        title="The loss is finite",
        why="A NaN or infinite loss ends the training in effect: with the weights updated from it, "
        "all later values are NaN.",
        passes=("every logged loss is finite",),
        warns=("at most three values are not, and the loss is finite again",),
        fails=("more values are NaN or infinite, or the last one is",),
        fix=NUMERICS,
        commands=("doctor run --only SMK002,NUM001",),
        sources=("ps-P8", "ps-P10"),
        limits="that the loss was finite between the logged steps.",
    )
    yield _check(
        "LOG092",
        "gradient-nonfinite",
        stepping,
        title="The gradient norm is finite",
        why="torch's loss scaler skips a step with infinite gradients and prints nothing: a gradient "
        "norm that stays infinite while the learning rate stands still is its only trace.",
        passes=("fewer than ten values in a row are NaN or infinite",),
        fails=("ten values in a row are NaN or infinite",),
        fix=NUMERICS,
        commands=("doctor run --only SMK002,NUM005",),
        sources=("transformers-31997", "ps-P10"),
        limits="that each step was taken.",
    )
    yield _check(
        "LOG093",
        "scaler-collapse",
        scale_holds,
        title="The loss scale does not collapse",
        why="A loss scale is halved at each overflow and doubled after a while without one. Up to "
        "sixteen halvings at the start are its calibration; a scale below 1 means that gradients "
        "overflow at any scale.",
        passes=("the loss scale stays at 1 or above, with few overflows in a row",),
        fails=("it falls below 1", "ten steps in a row overflow after the start, sixteen at it"),
        fix=NUMERICS,
        commands=("doctor run --only SMK002,NUM001",),
        sources=("Chinese-LLaMA-Alpaca-534", "apex-318"),
        limits="that no step was skipped.",
    )
    yield _check(
        "LOG094",
        "loss-spike",
        no_spikes,
        title="The loss has no spikes",
        why="A value six robust standard deviations and 30 % above the median of the values before "
        "it is a spike. Large runs have some and recover; one that does not come back is a failure. "
        "The gradient norm often rises a few steps before.",
        passes=("no value is six deviations and 30 % above those before it",),
        warns=("the loss came back, or the rise is short",),
        fails=("the loss stays high for five values or doubles, and does not come back",),
        fix="Go back to a checkpoint about 100 steps before and skip 200 to 500 batches, or lower "
        "the learning rate; clip the gradient norm.",
        sources=("zclip", "spam"),
        limits="that there was none between the logged steps.",
    )
    yield _check(
        "LOG095",
        "loss-divergence",
        no_divergence,
        title="The loss does not diverge",
        why="The median of the last tenth is compared with the lowest level after the first tenth: "
        "a run that ends 1.5 times above it has lost what it learned.",
        passes=("the last tenth is at most 1.5 times the lowest level",),
        fails=("it is higher",),
        fix=NUMERICS,
        sources=("ps-P8",),
        limits="that it falls as fast as it should.",
    )
    yield _check(
        "LOG096",
        "loss-plateau",
        progress,
        title="The loss improves",
        why="A loss without slope over the last third that improved by less than 5 % in all trains "
        "nothing: frozen parameters, a learning rate that is too low, or labels that are masked.",
        passes=("the loss improved by 5 % or still falls",),
        warns=("it hardly changed", "all logged values are equal"),
        fix="Check that parameters require gradients and change (SMK007, CKP007), that labels are "
        "not all -100, and that the learning rate is high enough.",
        commands=("doctor run --only SMK007",),
        sources=("fnr-diagnosis",),
        limits="that it generalizes.",
    )
    yield _check(
        "LOG097",
        "learning-rate-zero",
        rate_positive,
        title="The learning rate is above zero",
        why="Zero at the first step of a warm-up and at the end of a schedule is normal. Zero "
        "elsewhere trains nothing: a scheduler that was built for fewer steps than the run has, or "
        "that steps once per rank or micro-batch.",
        passes=("it is zero only at the start of a warm-up or at the end",),
        fails=("it is zero in between, or always",),
        fix="Build the scheduler for the number of optimizer steps of the whole run, on all ranks "
        "together.",
        sources=("cbl-root",),
        limits="that the schedule is the right one.",
    )
    yield _check(
        "LOG098",
        "throughput-falling",
        throughput_holds,
        title="The throughput holds",
        why="A throughput that falls over the run has a reason outside the model: GPUs that lower "
        "their clock, a DataLoader that runs out of prefetched or cached data, memory that grows.",
        passes=("the last third is at least 70 % as fast as the first",),
        warns=("it is slower",),
        fix="Compare the clocks and temperatures of the GPUs with the start, and the time that steps "
        "wait for data.",
        commands=("doctor run --only GPU004,GPU006",),
        sources=("thermal-throttling",),
        limits="that it is as high as it could be.",
    )


CHECKS = tuple(_checks())

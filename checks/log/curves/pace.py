"""How fast a training goes: a throughput that falls, and steps that wait for their data."""

from __future__ import annotations

from doctor._util.median import median
from doctor.checks.log import series
from doctor.checks.log.curves.reading import (
    each_curve,
    finite_of,
    partner,
    place_at,
    sequences_grow,
    states,
    too_few,
    values_of,
)
from doctor.checks.log.curves.rewards import is_of_policy
from doctor.checks.log.curves.shape import certain
from doctor.facts.log import Curve, Log
from doctor.judge.check import Status, Verdict, note, ok, skip, warn
from doctor.log.metrics.text import RATES

PARTS = {"step_time": "a step", "epoch_time": "an epoch"}
"""Curves of times, which rise where the training gets slower."""
SLOWER = 0.7
"""Share of the early throughput below which it is reported. Our own number."""
STARTED, ENOUGH = 2, 10
"""Rows at the start, in which workers fill their queues, and rows from which on waiting is no
accident. Our own."""
MOSTLY, PARTLY = 0.5, 0.3
"""Shares of a step that it waits for data, for a warning and for a note. Our own."""


def throughput_holds(log: Log) -> Verdict:
    own = {curve.name for curve in log.curves}
    name = next((each for each in RATES if each in own), "step_time")
    speed = each_curve(log, name, lambda curve: _throughput(log, curve))
    if "epoch_time" not in own or speed.status in (Status.WARN, Status.NOTE):
        return speed
    return each_curve(log, "epoch_time", lambda curve: _throughput(log, curve))


def _throughput(log: Log, curve: Curve) -> Verdict:
    if few := too_few(curve):
        return few
    if is_of_policy(log, curve):
        return skip("completions of other lengths take other times")
    if curve.name != "throughput" and sequences_grow(log, curve):
        return skip("the sequences become longer")
    if states(log, "stages"):
        return skip("the log says that the training goes in stages, whose steps differ")
    values, places = finite_of(curve)
    if curve.name in PARTS:
        values = [1 / value for value in values if value]
    lower = series.fell(values, SLOWER)
    if lower is None:
        return ok("the throughput is as high at the end as at the start")
    early, late = lower
    verdict = warn(
        f"the time of {PARTS[curve.name]} rose from {1 / early:.4g} to {1 / late:.4g}"
        if curve.name in PARTS
        else f"the throughput fell from {early:.4g} to {late:.4g}; at least {SLOWER:.0%} of the "
        "early value expected",
        places=(place_at(curve, places[-1]),),
    )
    return certain(values, verdict)


FEW, IDLE = 3, 30.0
"""Lines with a breakdown of a step's time, and per cent in which a GPU computes, below which it
mostly waits. Our own numbers."""
WATCHED = 5
"""Lines that say how busy the GPU is, from which on it is no accident. Our own number."""
WAITS_ON_HOST = (
    "Find what it waits for: profile ten steps (torch.profiler, py-spy top on the training process "
    "and its workers). Most often one process prepares all data: more loader workers and as many "
    "shards as workers, decoded or tokenized data in place of raw ones, transforms on the GPU. "
    "Else: .item() or prints at each step, small batches (raise the batch, torch.compile), an "
    "evaluation or a checkpoint every few steps, too few CPU cores for the job."
)


def data_arrives(log: Log) -> Verdict:
    verdicts = (
        each_curve(log, "data_time", lambda curve: _waiting(log, curve)),
        each_curve(log, "data_share", _share),
        each_curve(log, "gpu_busy", lambda curve: _busy(log, curve)),
    )
    return next((each for each in verdicts if each.status is Status.WARN), verdicts[0])


def _share(curve: Curve) -> Verdict:
    """By lines that break the time of a step down."""
    values = values_of(curve)
    share = median(values)
    if len(values) < FEW or share < MOSTLY:
        return ok(f"steps wait for their data for {share:.0%} of their time")
    return warn(
        f"a step waits for its data for {share:.0%} of its time, in {len(values):,} lines that "
        "break it down; the GPU idles meanwhile",
        places=(place_at(curve, 0),),
    )


def _busy(log: Log, curve: Curve) -> Verdict:
    values = values_of(curve)
    busy = median(values)
    if len(values) < WATCHED or busy >= IDLE or is_of_policy(log, curve):
        return ok(f"the GPU computes for {busy:.0f} % of the time")
    return warn(
        f"the GPU computes for {busy:.0f} % of the time, in {len(values):,} lines; it waits for "
        "the rest",
        fix=WAITS_ON_HOST,
        places=(place_at(curve, 0),),
    )


def _waiting(log: Log, waits: Curve) -> Verdict:
    """By the rows that have both times: a step that waits takes longer than its waiting."""
    whole = partner(log, waits, "iteration_time") or partner(log, waits, "step_time")
    if whole is None:
        return skip("the log has no time of a whole step beside that of its data")
    taken = dict(zip(whole.lines, values_of(whole), strict=True))
    pairs = [
        (wait, taken[line])
        for line, wait in zip(waits.lines, values_of(waits), strict=True)
        if taken.get(line, 0) > 0
    ][STARTED:]
    if len(pairs) < ENOUGH:
        return skip(f"{len(pairs)} steps with both times; fewer than {ENOUGH} are not judged")
    shares = sorted(wait / step for wait, step in pairs)
    if shares[0] < 0 or shares[-1] > 1.05:
        return skip("the times of data and of steps in the log are not of one kind")
    share = median(shares)
    summary = f"a step waits for its data for {share:.0%} of its time"
    if share < PARTLY:
        return ok(summary)
    middle = median([wait for wait, _ in pairs]), median([step for _, step in pairs])
    summary += f": {middle[0]:.3g} of {middle[1]:.3g} s; the GPU idles meanwhile"
    return (warn if share >= MOSTLY else note)(summary, places=(place_at(waits, STARTED),))

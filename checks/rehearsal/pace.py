"""Stage 7: how long the whole run takes, and what it costs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from doctor.checks.rehearsal.parts import some, unobserved
from doctor.facts.rehearsal import Rehearsal
from doctor.facts.rehearsal_runs import RehearsedRank, RehearsedRun
from doctor.hardware.find import find
from doctor.hardware.product import TERA
from doctor.judge.check import Check, Owner, Verdict, note, skip, unknown

LEAST_SHARE = 0.01
"""Of the time, from which on waiting is mentioned. Our own number."""
FIRST = 2
"""Steps that are left out: they build caches, buckets and the optimizer's state. Our own number."""
LEAST = 10
"""Steps without which the spread says little. Our own number."""
MOST = 2000
"""Steps up to which the time of each is recorded."""
STUDENT = 2.262
"""Factor of a 95 % interval from 10 independent values; with more of them a little too large."""

MOST_ALIKE = 0.9
"""Largest correlation of a step with the one before it that is reckoned with. Our own number."""
DRIFT = 0.1
"""Share by which hours may differ from minutes, whatever the spread of the steps: temperature,
neighbours, the doctor's own hooks. Our own number."""
WIDE = 0.25
"""Of the mean: an interval wider than that says little about the cost. Our own number."""
UNITS = (("T", TERA), ("G", 1e9), ("M", 1e6))
HALF, MOSTLY = ("bfloat16", "float16"), 0.9
"""dtypes that tensor cores multiply at the data sheet's rate, and the share of the arithmetic in
them from which on it is compared with that rate. Our own number."""


@dataclass(frozen=True)
class Pace:
    """Of one rank: seconds of the steps without a save or evaluation, and what these add."""

    steps: Sequence[float]
    added: float
    """Seconds by which the steps with a save or evaluation are longer, per step of all."""
    occasions: int
    """Steps with a save or evaluation."""

    @property
    def mean(self) -> float:
        """Seconds per step; nan without steps."""
        return sum(self.steps) / len(self.steps) if self.steps else math.nan

    def interval(self, total: int) -> tuple[float, float]:
        """Seconds per step between which the mean of `total` further steps lies in about 95 of 100
        cases, if they vary as these do and drift little."""
        half = math.hypot(self.spread(total), DRIFT * self.mean)
        return max(min(self.steps) * (1 - DRIFT), self.mean - half), self.mean + half

    def enough(self, total: int) -> int:
        """Timed steps that would make the interval no wider than `WIDE`; 0 if it is not."""
        allowed = self.mean * math.sqrt((WIDE / 2) ** 2 - DRIFT**2)
        excess = self.spread(total) / allowed
        return math.ceil(len(self.steps) * excess**2) if excess > 1 else 0

    def spread(self, total: int) -> float:
        """Half of the interval by the steps' spread alone. Steps that resemble those before them
        count for fewer."""
        count = len(self.steps)
        apart = [each - self.mean for each in self.steps]
        squares = sum(each * each for each in apart)
        products = sum(a * b for a, b in itertools.pairwise(apart))
        alike = products / squares + 1 / count if squares else 0.0
        alike = min(max(alike, 0.0), MOST_ALIKE)
        variance = squares / (count - 1) * (1 + alike) / (1 - alike)
        return STUDENT * math.sqrt(variance * (1 / count + 1 / total))


def measured(run: RehearsedRun) -> Pace:
    """The pace of the slowest rank, on which the others wait."""
    occasions = {each.step for each in run.saved}
    occasions |= {each.step for rank in run.ranks for each in rank.evaluations}
    paces = [_of_rank(rank, occasions) for rank in run.ranks]
    return max(paces, key=lambda pace: (len(pace.steps) >= LEAST, pace.mean))


def _of_rank(rank: RehearsedRank, occasions: set[int]) -> Pace:
    """What is saved after step n lengthens step n + 1; the first time recorded is of step 2."""
    timed = list(enumerate(rank.seconds[: MOST - 1], 2))[FIRST - 1 :]
    steps = [seconds for step, seconds in timed if step - 1 not in occasions]
    longer = [seconds for step, seconds in timed if step - 1 in occasions]
    pace = Pace(steps, 0.0, len(longer))
    if not steps or not longer:
        return pace
    added = max(0.0, sum(longer) - len(longer) * pace.mean) / len(timed)
    return Pace(steps, added, len(longer))


def estimates(rehearsal: Rehearsal) -> Verdict:
    if rehearsal.total_steps is None and rehearsal.total_tokens is None:
        return skip("--total-steps was not given")
    run = rehearsal.run("run")
    if reason := unobserved(run):
        return reason
    assert run is not None
    if run.code:
        return unknown("the run failed: see RHS003")
    return _estimate(rehearsal, run)


def _estimate(rehearsal: Rehearsal, run: RehearsedRun) -> Verdict:
    """Of a run that ended well."""
    tokens = _tokens_per_step(rehearsal, run)
    total = rehearsal.total_steps or 0
    if not total and not tokens:
        return unknown(
            "the first batch has no tensor of whole numbers, samples x length, by which tokens "
            "could be counted: give --total-steps"
        )
    total = total or math.ceil((rehearsal.total_tokens or 0) / tokens)
    pace = measured(run)
    count = len(pace.steps)
    if count < LEAST:
        return unknown(
            f"{count} steps were timed, without the first {FIRST} and those with a save or "
            f"evaluation; at least {LEAST} required: give the command more steps"
        )
    low, high = pace.interval(total)
    hours = [total * seconds / 3600 for seconds in (pace.mean, low, high)]
    parts = [f"{total:,} steps take {_between(hours)} h"]
    if rehearsal.price is not None:
        cost = _between([each * rehearsal.price for each in hours])
        parts.append(f"cost {cost} at {rehearsal.price:g} per hour")
    timed = f"{pace.mean:.3g} s per step, of {count} steps"
    if not rehearsal.total_steps:
        timed += f", each of {tokens:,} tokens as the first"
    if more := pace.enough(total):
        timed += f"; about {more + FIRST} would make the interval at most {WIDE:.0%} wide"
    arithmetic = achieved(run, pace.mean)
    occasions = _occasions(pace, hours[0], total)
    return note(f"{', '.join(parts)} ({timed}){arithmetic}{_waiting(run)}; {occasions}")


def _tokens_per_step(rehearsal: Rehearsal, run: RehearsedRun) -> int:
    """Of all ranks with a first batch of their own; 0 where they cannot be counted."""
    first = run.ranks[0]
    copies = rehearsal.agreement.distinct if rehearsal.agreement is not None else 1
    return (first.tokens or 0) * max(1, first.passes) * max(1, copies)


def achieved(run: RehearsedRun, seconds: float) -> str:
    """What the rank with the most arithmetic does per second, and of its GPU's peak."""
    rank = max(run.ranks, key=_operations)
    counted, operations = rank.counted, _operations(rank)
    if counted is None or operations <= 0 or not seconds > 0:
        return ""
    rate = operations / seconds
    text = f"; {_rate(rate)} per rank by the shapes of its operators"
    if counted.left_out:
        text += f", without {some(counted.left_out, len(counted.left_out))}"
    known = find(rank.gpu) if rank.gpu else None
    half = sum(counted.flops.get(dtype, 0) for dtype in HALF) / operations
    if known and known.bf16 and half > MOSTLY:
        peak = f"{known.bf16 / TERA:,.0f} that the data sheet of {known.product.name} names"
        text += f": {rate / known.bf16:.0%} of the {peak}"
    return text


def _rate(operations: float) -> str:
    unit, size = next((each for each in UNITS if operations >= each[1]), UNITS[-1])
    return f"{operations / size:.3g} {unit}FLOP/s"


def _operations(rank: RehearsedRank) -> int:
    return sum(rank.counted.flops.values()) if rank.counted else 0


def _waiting(run: RehearsedRun) -> str:
    """The share of waiting for batches, of the rank that waits most."""
    shares = [
        rank.waited / sum(rank.seconds) for rank in run.ranks if rank.waited and sum(rank.seconds)
    ]
    share = min(1.0, max(shares, default=0.0))
    return f"; waiting for batches takes {share:.0%} of it" if share >= LEAST_SHARE else ""


def _occasions(pace: Pace, hours: float, total: int) -> str:
    """What saving and evaluating add."""
    if not pace.occasions:
        return "no save or evaluation lay between these steps"
    added = total * pace.added / 3600
    return (
        f"saving and evaluating as often as in the rehearsal adds {_number(added)} h, "
        f"{added / (hours + added):.1%} of the whole"
    )


def _between(values: Sequence[float]) -> str:
    middle, low, high = map(_number, values)
    return f"{middle} ({low} to {high})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


ESTIMATES = Check(
    code="RHS015",
    slug="run-pace",
    title="The time and cost of the whole run are estimated",
    why="A run that takes three weeks instead of one, or whose evaluations take a third of the "
    "time, is better known before it is paid for.",
    passes=("the steps allow an estimate, which is a note",),
    notes=(
        "--total-steps or --total-tokens was given: hours, and money with --price, with an "
        "interval from the spread of the steps; what waiting for batches takes of it; achieved "
        "FLOP/s by the shapes of matrix products, convolutions and attention, on a GPU against its "
        "data sheet",
    ),
    fix="Nothing, if that is acceptable. Else save and evaluate less often, or speed up the step.",
    owner=Owner.JOB,
    judge=estimates,
    limits="that later steps take as long as these: start-up, other lengths of samples, a slower "
    "disk or network and interruptions are not in it. The interval knows the spread "
    "of these steps alone: a stall that is rare, or a slow drift, makes it too narrow. The "
    "hooks that observe are in the time. Compiled code, sharded tensors and kernels without a "
    "formula are not counted; what activation checkpointing computes again is.",
)

CHECKS = (ESTIMATES,)

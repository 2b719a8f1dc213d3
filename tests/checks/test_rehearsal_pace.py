"""The pace of a rehearsal: its mean, its interval, and where none is made up."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from rehearsal_facts import (
    CONTINUED,
    RANK,
    RUN,
    STOPPED,
    changed,
    findings,
    with_run,
)

from doctor.checks.rehearsal.pace import Pace, measured
from doctor.facts.rehearsal import (
    Rehearsal,
)
from doctor.facts.rehearsal_runs import (
    CountedStep,
    Evaluated,
    RehearsedRank,
)
from doctor.judge.check import Status


def paced(seconds: tuple[float, ...], **fields: Any) -> Rehearsal:
    """Steps of these seconds from the second on, with what follows steps 4 and 8."""
    evaluation = Evaluated(step=8, seconds=1, calls=1, samples=1)
    rank = msgspec.structs.replace(
        RANK, steps=len(seconds) + 1, seconds=seconds, evaluations=(evaluation,)
    )
    run = msgspec.structs.replace(RUN, ranks=(rank,))
    return changed(runs=(run, STOPPED, CONTINUED), **fields)


STEPS = (9.0, 1.0, 1.0, 3.0, 1.0, 1.0, 1.0, 3.0, 1.0, 1.0, 1.0, 1.0, 1.0)
"""Of steps 2 to 14; 5 and 9 are longer by 2 s, by a save and an evaluation."""


def test_the_pace_leaves_out_the_first_steps_and_those_with_a_save_or_evaluation() -> None:
    finding = findings(paced(STEPS, total_steps=36_000, price=2.5))["RHS015"]
    assert finding.status is Status.NOTE
    summary = finding.verdict.summary
    assert "36,000 steps take 10 (9 to 11) h, cost 25 (22.5 to 27.5) at 2.5 per hour" in summary
    assert "(1 s per step, of 10 steps)" in summary
    assert "adds 3.33 h, 25.0% of the whole" in summary
    assert "wide" not in summary


def test_the_interval_of_the_pace_is_as_wide_as_the_steps_spread() -> None:
    steps = tuple(0.8 if number % 2 else 1.2 for number in range(21))
    finding = findings(paced((9.0, *steps), total_steps=3600))["RHS015"]
    pace = measured(msgspec.structs.replace(RUN, ranks=(rank_of(steps),), saved=()))
    low, high = pace.interval(10**9)
    assert 0.8 < low < 0.9 < pace.mean < 1.1 < high < 1.2  # never less than what may drift
    wide_low, wide_high = pace.interval(1)
    assert wide_low == pytest.approx(0.72)
    assert 21 < pace.enough(10**9) < 60
    more = Pace(steps * 3, 0.0, 0)
    assert more.enough(10**9) == 0
    assert (more.interval(10**9)[1] - more.interval(10**9)[0]) / more.mean < 0.25
    assert "would make the interval at most 25% wide" in finding.verdict.summary
    assert wide_high > 1.4
    assert "per hour" not in finding.verdict.summary


def test_steps_that_drift_give_a_wider_interval_than_the_same_steps_in_turn() -> None:
    drifting = tuple(1 + number / 20 for number in range(20))
    in_turn = tuple(1 + (number * 11 % 20) / 20 for number in range(20))
    assert sorted(in_turn) == sorted(drifting)
    low, high = Pace(drifting, 0.0, 0).interval(1000)
    narrow_low, narrow_high = Pace(in_turn, 0.0, 0).interval(1000)
    assert high - low > 1.5 * (narrow_high - narrow_low)


def test_achieved_rates_stand_beside_the_data_sheet_where_tensor_cores_multiply() -> None:
    def summary(flops: dict[str, int], gpu: str = "", *left_out: str) -> str:
        rank = msgspec.structs.replace(
            rank_of((1.0,) * 12), gpu=gpu, counted=CountedStep(flops=flops, left_out=left_out)
        )
        run = msgspec.structs.replace(RUN, saved=(), ranks=(rank,))
        return findings(changed(runs=(run,), total_steps=1000))["RHS015"].verdict.summary

    h100 = "NVIDIA H100 80GB HBM3"
    half = summary({"bfloat16": 400 * 10**12, "float32": 10**12}, h100)
    assert "401 TFLOP/s per rank" in half
    assert "41% of the 989 that the data sheet of H100 80GB HBM3 names" in half
    assert "data sheet" not in summary({"float32": 10**12}, h100)
    assert "data sheet" not in summary({"bfloat16": 10**12}, "an unknown GPU")
    assert "without flash_attn::fwd" in summary({"float32": 10**12}, "", "flash_attn::fwd")
    nothing = summary({})
    assert nothing.startswith("1,000 steps take")
    assert "FLOP" not in nothing


def test_tokens_become_steps_and_waiting_is_a_share() -> None:
    run = msgspec.structs.replace(RUN, saved=(), ranks=(rank_of((1.0,) * 12),))
    plain = changed(runs=(run,), total_tokens=10**9)
    assert findings(plain)["RHS015"].status is Status.UNKNOWN  # no whole numbers in the batch
    rank = msgspec.structs.replace(run.ranks[0], tokens=4096, passes=4, waited=2.1)
    known = changed(runs=(msgspec.structs.replace(run, ranks=(rank,)),), total_tokens=10**9)
    summary = findings(known)["RHS015"].verdict.summary
    assert "30,518 steps" in summary  # two ranks, as the agreement has two first batches
    assert "each of 32,768 tokens" in summary
    assert "waiting for batches takes 10% of it" in summary


def rank_of(seconds: tuple[float, ...]) -> RehearsedRank:
    return RehearsedRank(rank=0, world=1, steps=22, seconds=(9.0, *seconds), ended=True)


def test_the_slowest_rank_sets_the_pace() -> None:
    ranks = (rank_of((1.0,) * 12), rank_of((2.0,) * 12), rank_of((1.5,) * 12))
    assert measured(msgspec.structs.replace(RUN, ranks=ranks, saved=())).mean == 2.0


@pytest.mark.parametrize(
    ("rehearsal", "status", "word"),
    [
        (paced(STEPS), Status.SKIP, "--total-steps"),
        (paced(STEPS[:-1], total_steps=100), Status.UNKNOWN, "9 steps were timed"),
        (paced((), total_steps=100), Status.UNKNOWN, "0 steps were timed"),
        (with_run(code=1), Status.SKIP, "--total-steps"),
        (
            msgspec.structs.replace(with_run(code=1), total_steps=100),
            Status.UNKNOWN,
            "the run failed",
        ),
        (
            msgspec.structs.replace(with_run(ranks=()), total_steps=100),
            Status.UNKNOWN,
            "no process",
        ),
        (changed(runs=(), total_steps=100), Status.UNKNOWN, "no record"),
    ],
)
def test_no_pace_is_made_up(rehearsal: Rehearsal, status: Status, word: str) -> None:
    finding = findings(rehearsal)["RHS015"]
    assert finding.status is status
    assert word in finding.verdict.summary

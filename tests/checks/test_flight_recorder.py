"""The judges of flight-recorder dumps."""

from __future__ import annotations

from typing import Any

import pytest

from doctor.checks.log.flight_recorder import CALLS_MATCH, RANKS_IN_STEP
from doctor.facts.flight_recorder import (
    FlightRecorder,
    Mismatch,
    Operation,
    Stopped,
    Variant,
    Wait,
)
from doctor.judge.check import Owner, Status

OPERATION = Operation(
    name="all_reduce", group="0", description="default_pg", sequence=7, ranks=(0, 1, 2)
)
WAIT = Wait(operation=OPERATION, arrived=(0, 1), missing=(2,))


def recorder(**fields: Any) -> FlightRecorder:
    return FlightRecorder(**{"ranks": (0, 1, 2), "paths": ("d/0", "d/1", "d/2")} | fields)


def stopped(evidence: Any) -> Stopped:
    return Stopped(rank=2, evidence=evidence, operation=OPERATION, waiting=(0, 1))


@pytest.mark.parametrize(
    ("fields", "status", "owner", "word"),
    [
        ({}, Status.PASS, Owner.JOB, "3 ranks"),
        ({"stopped": (stopped("not called"),)}, Status.FAIL, Owner.JOB, "rank 2 stopped"),
        ({"stopped": (stopped("not completed"),)}, Status.FAIL, Owner.MACHINE, "all_reduce 7"),
        ({"stopped": (stopped("not started"),)}, Status.FAIL, Owner.MACHINE, "not start"),
        ({"stopped": (stopped("behind"),)}, Status.FAIL, Owner.JOB, "its peers"),
        ({"stopped": (stopped("no dump"),)}, Status.FAIL, Owner.JOB, "no dump"),
        ({"waits": (WAIT,)}, Status.FAIL, Owner.JOB, "rank 2, which wait"),
        ({"hung": (WAIT,)}, Status.FAIL, Owner.MACHINE, "itself hangs"),
        ({"hung": (WAIT, WAIT)}, Status.FAIL, Owner.JOB, "none completes"),
        ({"without_dump": (3,)}, Status.UNKNOWN, Owner.JOB, "rank 3"),
        ({"unread": {"d/3": "is malformed"}}, Status.UNKNOWN, Owner.JOB, "is malformed"),
        ({"ranks": (0,), "paths": ("d/0",)}, Status.UNKNOWN, Owner.JOB, "single"),
    ],
)
def test_ranks_in_step(fields: dict[str, Any], status: Status, owner: Owner, word: str) -> None:
    verdict = RANKS_IN_STEP.judge(flight_recorder=recorder(**fields))
    assert verdict.status is status
    assert (verdict.owner or Owner.JOB) is owner
    assert word in verdict.summary


def test_the_place_is_the_dump_of_the_rank_or_of_one_that_waits_for_it() -> None:
    here = RANKS_IN_STEP.judge(flight_recorder=recorder(stopped=(stopped("not called"),)))
    assert [(place.path, place.rank) for place in here.places] == [("d/2", 2)]
    fields: dict[str, Any] = {"ranks": (0, 1), "paths": ("d/0", "d/1")}
    gone = RANKS_IN_STEP.judge(flight_recorder=recorder(stopped=(stopped("no dump"),), **fields))
    assert [(place.path, place.rank) for place in gone.places] == [("d/0", 2)]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({}, Status.PASS),
        ({"ranks": (0,)}, Status.UNKNOWN),
        (
            {
                "mismatches": (
                    Mismatch(
                        operation=OPERATION,
                        by="size",
                        variants=(
                            Variant(value="[[8]]", ranks=(0, 1)),
                            Variant(value="[[4]]", ranks=(2,)),
                        ),
                    ),
                )
            },
            Status.FAIL,
        ),
    ],
)
def test_calls_match(fields: dict[str, Any], status: Status) -> None:
    verdict = CALLS_MATCH.judge(flight_recorder=recorder(**fields))
    assert verdict.status is status
    assert status is not Status.FAIL or "rank 2 [[4]]" in verdict.summary

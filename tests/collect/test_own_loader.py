"""Whether a run reads the loader of the user's model once more, and what it keeps of that."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from own_code import Well
from recorded_parts import host

from doctor._util.records import Ended, Unknown
from doctor.checks.training.own_model import loss_learned
from doctor.collect.data import DataRequest, of_own, request_of
from doctor.facts.data import Data, Labels, Problem, Split
from doctor.facts.facts import Facts
from doctor.facts.training import Step
from doctor.job.job import Job
from doctor.job.run_options import RunOptions
from doctor.judge.check import Status

NONE_TRAINED = Labels(objective="next token", documents=64, unlabelled=64)
SPLIT = Split(name="train", kind="loader", rows=64, batches=8, labels=NONE_TRAINED)
ALL = RunOptions()
DATA = Data(target="train.py:make", opened=Ended(how="ok"), splits=(SPLIT,))


def facts(options: RunOptions = ALL, how: Any = "ok", seconds: float = 1.0) -> Facts:
    own = Well(has_loader=True, built=Ended(how=how, seconds=seconds)).own
    unread = Unknown(reason="not read")
    job = Job(device="cpu", model="train.py:make")
    return Facts(
        job=job, options=options, host=host(), interpreter=unread, torch=unread, places=(), own=own
    )


def test_the_second_call_of_a_factory_is_bounded() -> None:
    request = request_of(facts(seconds=4.0))
    assert isinstance(request, DataRequest)
    assert request.limit == 68.0
    assert not request.repeats
    long = request_of(facts(seconds=31.0))
    assert isinstance(long, Unknown)
    assert "took 31 s" in long.reason


@pytest.mark.parametrize(
    "own",
    [facts(RunOptions(loader=False)), facts(RunOptions(quick=True)), facts(how="error")],
    ids=["not selected", "quick", "whose first batch failed"],
)
def test_a_loader_is_left_alone(own: Facts) -> None:
    assert request_of(own) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"splits": (), "problem": Problem(error="ConnectionError")},
        {"splits": (msgspec.structs.replace(SPLIT, rows=0),), "died": "timeout"},
    ],
)
def test_a_second_call_that_fails_is_no_fault_of_the_data(changed: dict[str, Any]) -> None:
    read = of_own(msgspec.structs.replace(DATA, **changed), Well().own)
    assert isinstance(read, Unknown)


@pytest.mark.parametrize(("norm", "learned"), [(1.0, True), (0.0, False), ("nan", False)])
def test_labels_that_a_step_learned_from_are_known(norm: Any, learned: bool) -> None:
    own = Well().own
    assert own.smoke is not None
    steps = (Step(loss=2.0, grad_norm=norm, lr=3e-4),)
    own = msgspec.structs.replace(own, smoke=msgspec.structs.replace(own.smoke, steps=steps))
    read = of_own(DATA, own)
    assert isinstance(read, Data)
    assert read.unlabelled is not learned


@pytest.mark.parametrize(
    ("data", "options", "status"),
    [
        (DATA, ALL, Status.UNKNOWN),
        (DATA, RunOptions(skip=("DAT001",)), Status.FAIL),
        (None, RunOptions(only=("SMK",)), Status.FAIL),
    ],
)
def test_a_lack_of_labels_fails_once(data: Any, options: RunOptions, status: Status) -> None:
    own = Well().own
    assert own.smoke is not None
    steps = (Step(loss="nan", grad_norm=0.0, lr=3e-4),)
    own = msgspec.structs.replace(own, smoke=msgspec.structs.replace(own.smoke, steps=steps))
    verdict = loss_learned(own, None, data, options)
    assert verdict.status is status
    assert ("DAT001" in verdict.summary) is (status is Status.UNKNOWN)

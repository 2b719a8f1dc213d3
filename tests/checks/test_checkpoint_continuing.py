"""CKP019 to CKP022 over records of checkpoints that a run continues from."""

from __future__ import annotations

from typing import Any

import pytest
from recorded_checkpoints import checkpoint, continuation

from doctor._util.records import Unknown
from doctor.checkpoint.records import Optimizer, Plan
from doctor.checks.checkpoint.continuing import COMPLETE, RANKS, SAME
from doctor.checks.checkpoint.continuing_steps import STEPS
from doctor.judge.check import Check, Status

ALL = (COMPLETE, RANKS, STEPS, SAME)
PIECES = {"optimizer": "o", "scheduler": "s", "loop state": "t", "random state": "r"}
TRAINER = {"trainer_state.json": 20, "scheduler": 20, "optimizer": 20}
ACCELERATE = {"framework": "accelerate", "ranks": 4, "random_ranks": 4}
ZERO = {"framework": "DeepSpeed", "ranks": 8, "reshards": False, "random_ranks": None}
ONE = {"framework": "torch.save", "ranks": None, "random_ranks": None}


def status(check: Check, **fields: Any) -> Status:
    saved = checkpoint(continuation=continuation(**fields))
    return check.judge(checkpoint=saved).status


@pytest.mark.parametrize("check", ALL)
def test_without_a_record(check: Check) -> None:
    assert check.judge(checkpoint=checkpoint()).status is Status.SKIP
    unread = checkpoint(continuation=Unknown(reason="no weights"))
    assert check.judge(checkpoint=unread).status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, Status.PASS),
        ({"framework": ""}, Status.UNKNOWN),
        ({"pieces": PIECES | {"optimizer": ""}}, Status.FAIL),
        ({"pieces": PIECES | {"scheduler": ""}}, Status.FAIL),
        ({"pieces": PIECES | {"random state": ""}}, Status.WARN),
        ({"pieces": PIECES, "ranks": 4, "random_ranks": 3}, Status.WARN),
        ({"pieces": PIECES, "ranks": 4, "random_ranks": 4}, Status.PASS),
        ({"pieces": PIECES, "best_gone": "checkpoint-20"}, Status.WARN),
        ({"unread": {"scheduler": "is cut short"}}, Status.FAIL),
        (ONE | {"pieces": PIECES | {"scheduler": ""}}, Status.NOTE),
        (ONE | {"pieces": PIECES, "plan": Plan(precision="fp16")}, Status.FAIL),
        ({"framework": "Lightning", "pieces": {"optimizer": "f"}}, Status.FAIL),
    ],
)
def test_what_a_resumed_run_needs(fields: dict[str, Any], expected: Status) -> None:
    assert status(COMPLETE, **fields) is expected


@pytest.mark.parametrize(
    ("fields", "gpus", "expected"),
    [
        ({}, None, Status.PASS),
        ({}, 1, Status.PASS),
        ({}, 2, Status.WARN),
        (ACCELERATE, 4, Status.PASS),
        (ACCELERATE, 2, Status.NOTE),
        (ACCELERATE | {"random_ranks": 3}, 4, Status.WARN),
        (ACCELERATE, None, Status.NOTE),
        (ZERO, 8, Status.PASS),
        (ZERO, 4, Status.FAIL),
        (ZERO | {"reshards": True}, 4, Status.NOTE),
        (ONE, 4, Status.SKIP),
        (ONE | {"reshards": False}, 4, Status.UNKNOWN),
    ],
)
def test_processes(fields: dict[str, Any], gpus: int | None, expected: Status) -> None:
    assert status(RANKS, **fields, plan=Plan(gpus=gpus)) is expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, Status.PASS),
        ({"counts": TRAINER | {"directory": 10}}, Status.FAIL),
        ({"counts": TRAINER | {"scheduler": 10}}, Status.FAIL),
        ({"counts": TRAINER | {"scheduler": 30}}, Status.FAIL),
        ({"counts": TRAINER | {"scheduler": 3}, "epoch_scheduler": True}, Status.PASS),
        ({"counts": TRAINER | {"scheduler": 18, "optimizer": 18}, "scale": 1024.0}, Status.NOTE),
        ({"counts": {"optimizer": 20}}, Status.UNKNOWN),
        (ACCELERATE | {"counts": {"scheduler": 80, "optimizer": 20}}, Status.PASS),
        (ACCELERATE | {"counts": {"scheduler": 30, "optimizer": 20}}, Status.WARN),
        (ACCELERATE | {"counts": {"scheduler": 3, "optimizer": 20}}, Status.UNKNOWN),
        ({"framework": "Lightning", "counts": {"checkpoint": 9, "optimizer": 8}}, Status.FAIL),
        (ZERO | {"counts": {"DeepSpeed": 9, "optimizer": 12}}, Status.FAIL),
        (ONE | {"counts": {"checkpoint": 9, "optimizer": 3}}, Status.NOTE),
        (ONE | {"counts": {"checkpoint": 9, "optimizer": 2}}, Status.UNKNOWN),
        (ONE | {"counts": {"checkpoint": 9, "scheduler": 4}}, Status.UNKNOWN),
        (
            ONE | {"counts": {"checkpoint": 300, "scheduler": 12}, "epoch_scheduler": True},
            Status.PASS,
        ),
        ({"counts": {"trainer_state.json": 9, "optimizer": 9, "scheduler": 15}}, Status.FAIL),
        (ONE | {"counts": {}}, Status.UNKNOWN),
        ({"scale": 0.25}, Status.WARN),
        ({"scheduler_end": 20, "one_cycle": True}, Status.FAIL),
        ({"max_steps": 20}, Status.NOTE),
        ({"max_steps": 20, "plan": Plan(max_steps=20)}, Status.WARN),
        ({"max_steps": 30, "plan": Plan(max_steps=40)}, Status.NOTE),
        (
            {"scheduler_end": 30, "one_cycle": True, "plan": Plan(max_steps=40)},
            Status.FAIL,
        ),
        ({"scheduler_end": 30, "plan": Plan(max_steps=40)}, Status.WARN),
    ],
)
def test_step_counts(fields: dict[str, Any], expected: Status) -> None:
    assert status(STEPS, **fields) is expected


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        (TRAINER, Status.SKIP),
        (TRAINER | {"scheduler": 80}, Status.FAIL),
        (TRAINER | {"scheduler": 18}, Status.SKIP),  # skipped steps, as a scaler makes them
        (TRAINER | {"optimizer": 5}, Status.SKIP),  # an optimizer that was begun anew
    ],
)
def test_without_continue_only_steps_too_many_are_named(counts: Any, expected: Status) -> None:
    assert status(STEPS, counts=counts, requested=False) is expected
    for check in (COMPLETE, RANKS, SAME):
        assert status(check, counts=counts, requested=False) is Status.SKIP


@pytest.mark.parametrize(
    ("fields", "plan", "expected"),
    [
        ({}, Plan(), Status.SKIP),
        ({}, Plan(gpus=1, batch_size=4), Status.PASS),
        ({}, Plan(batch_size=8), Status.WARN),
        ({}, Plan(gpus=2), Status.WARN),
        ({"ranks": None}, Plan(gpus=2), Status.SKIP),
        ({"numpy_core": True}, Plan(packages={"numpy": "1.24.4"}), Status.FAIL),
        ({"numpy_core": True}, Plan(packages={"numpy": "2.1.0"}), Status.PASS),
        (
            {"versions": {"transformers": "5.23.0"}},
            Plan(packages={"transformers": "4.57.6"}),
            Status.WARN,
        ),
    ],
)
def test_the_same_run(fields: dict[str, Any], plan: Plan, expected: Status) -> None:
    assert status(SAME, **fields, plan=plan) is expected


@pytest.mark.parametrize(
    ("saved", "scheduled", "framework", "expected"),
    [
        ((1e-3,), (2e-5,), "accelerate", Status.WARN),
        ((2e-5, 1e-3), (2e-5, 2e-5), "transformers Trainer", Status.WARN),
        ((2e-5,), (2e-5,), "accelerate", Status.PASS),
        ((2e-5, 1e-3), (2e-5,), "accelerate", Status.PASS),  # of another optimizer
        ((1e-3,), (2e-5,), "torch.save", Status.PASS),  # a rate that the program sets
        ((), (2e-5,), "accelerate", Status.PASS),
    ],
)
def test_rates_of_optimizer_and_scheduler(
    saved: tuple[float, ...], scheduled: tuple[float, ...], framework: str, expected: Status
) -> None:
    optimizer = Optimizer(file="o", kind="Adam", entries=1, parameters=1, current_lr=saved)
    counts = {"scheduler": 20, "optimizer": 20, "trainer_state.json": 20, "checkpoint": 20}
    found = continuation(framework=framework, counts=counts, last_lr=scheduled)
    verdict = STEPS.judge(checkpoint=checkpoint(optimizer=optimizer, continuation=found))
    assert verdict.status is expected, verdict.summary

"""What a schedule gives in further steps is tried on a copy."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from doctor.probes.training_side.subject import optimizers, schedules  # noqa: E402

pytestmark = pytest.mark.slow
of_torch = torch.optim.lr_scheduler


def rounded(step: int) -> float:
    return (step + 1) // 50


def never(step: int) -> float:
    return 0.0


def made(scheduler: Any, lr: float = 0.5) -> Any:
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.AdamW([weight], lr=lr)
    schedule = scheduler(optimizer)
    for _ in range(3):
        optimizer.step()
        schedule.step()
    return schedule


def joined(optimizer: Any) -> Any:
    parts = [of_torch.LambdaLR(optimizer, factor) for factor in (never, rounded)]
    return of_torch.SequentialLR(optimizer, parts, [10])


@pytest.mark.parametrize(
    ("scheduler", "zeros", "rate", "code"),
    [
        (partial(of_torch.LambdaLR, lr_lambda=rounded), 46, 0.5, "return (step + 1) // 50"),
        (partial(of_torch.LambdaLR, lr_lambda=never), schedules.MOST_STEPS, None, "return 0.0"),
        (joined, 56, 0.5, "return 0.0"),
        (partial(of_torch.StepLR, step_size=5), 0, 0.5, ""),
    ],
)
def test_further_steps_of_a_schedule(
    scheduler: Any, zeros: int, rate: float | None, code: str, monkeypatch: Any
) -> None:
    monkeypatch.setattr(schedules, "SECONDS", 60.0)
    schedule = made(scheduler)
    before = schedule.optimizer.param_groups[0]["lr"], schedule.last_epoch
    record = schedules.forecast(schedule)
    assert record is not None
    assert (record["zeros"], record["rate"], record["code"]) == (zeros, rate, code)
    assert record["place"].startswith("test_schedules.py, line") is bool(code)
    assert (schedule.optimizer.param_groups[0]["lr"], schedule.last_epoch) == before


@pytest.mark.parametrize(("highest", "tried"), [({0: 0.0}, True), ({0: 0.5}, False), ({}, False)])
def test_a_schedule_is_tried_after_steps_of_0_alone(highest: Any, tried: bool) -> None:
    schedule = made(partial(of_torch.LambdaLR, lr_lambda=rounded))
    update = optimizers.Update(schedule.optimizer, schedule, None)
    record = optimizers.facts_of(update, {}, highest)
    assert record is not None
    assert (record["forecast"] is not None) is tried


def test_what_cannot_be_tried() -> None:
    assert schedules.forecast(None) is None
    assert schedules.forecast(object()) is None
    raises = made(partial(of_torch.ConstantLR, factor=0.0, total_iters=9))  # divides by it
    assert schedules.forecast(raises) is None
    plateau = of_torch.ReduceLROnPlateau(torch.optim.SGD([torch.ones(1)], lr=0.0))
    assert schedules.forecast(plateau) is None

"""Schedulers that do not fit the training: the rules, then trainings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from doctor.guard import schedule_rules
from doctor.guard.schedule_rules import Use


def use(name: str = "LambdaLR", **fields: Any) -> Use:
    values: dict[str, Any] = {
        "calls": 200, "horizon": 200, "steps": 200, "backwards": 200, "batches": 50, "epochs": 4,
        "initial": 0.1, "rate": 0.05, "highest": 0.1,
    }  # fmt: skip
    return Use(name, **values | fields)


NOW = [
    (use(), ""),
    (use(calls=800, backwards=800), "often"),
    (use(calls=150, steps=75, backwards=150), ""),  # its length is counted in its own calls
    (use(calls=800, backwards=800, horizon=0), ""),
    (use(calls=800, backwards=800, horizon=0, turns=1), "often"),
    (use("CosineAnnealingLR", horizon=10), "per-epoch"),
    (use("CosineAnnealingLR", horizon=10, calls=4), ""),
    (use("CosineAnnealingLR", horizon=60), ""),  # swings on purpose
    (use("StepLR", horizon=0, rate=1e-5, steps=90, calls=90), "per-epoch"),
    (use("StepLR", horizon=0, rate=1e-5), ""),
    (use("StepLR", horizon=0, rate=1e-5, calls=4), ""),
]
END = [
    (use(), ""),
    (use(calls=0), "never"),
    (use(calls=0, beside=4), ""),
    (use(calls=0, epochs=1, steps=900), ""),  # within its first epoch
    (use(calls=0, epochs=0, batches=0, steps=900), "never"),
    (use(calls=4), "per-step"),
    (use("CosineAnnealingLR", calls=4, horizon=100), ""),  # epochs, and the run was stopped
    (use(calls=4, horizon=0, highest=0.002), "per-step"),
    (use(calls=4, horizon=0, steps=99), ""),
]


@pytest.mark.parametrize(("found", "cause"), NOW)
def test_what_the_calls_show(found: Use, cause: str) -> None:
    assert [c for c, _ in schedule_rules.now(found)] == [cause] * bool(cause)


@pytest.mark.parametrize(("found", "cause"), END)
def test_what_the_whole_training_shows(found: Use, cause: str) -> None:
    assert [c for c, _ in schedule_rules.at_the_end(found)] == [cause] * bool(cause)


@pytest.mark.parametrize(
    ("metrics", "mode", "cause"),
    [
        ([40, 50, 55, 54, 57, 58], "min", "mode"),
        ([40, 50, 55, 54, 57, 58], "max", ""),
        ([0.9, 0.7, 0.6, 0.5, 0.55, 0.4], "max", "mode"),
        ([0.9, 0.7, 0.6, 0.8, 0.95, 1.2], "min", ""),  # overfits: it was better than at first
        ([0.1] * 6, "max", "constant"),
        ([40, 50, 55, 54], "min", ""),
        ([1.0, 1.01, 1.0, 1.02, 1.01, 1.02], "min", ""),
    ],
)
def test_the_metric_of_a_plateau(metrics: list[float], mode: str, cause: str) -> None:
    found = schedule_rules.plateau(metrics, mode, 1)
    assert [c for c, _ in found] == [cause] * bool(cause)


def trained(make: Any, per_epoch: bool, tmp_path: Path, accumulate: int = 1) -> set[Any]:
    torch = pytest.importorskip("torch")
    from trainings import adamw, alarms, batches, guarded, loss_of, model

    module = model()
    optimizer = adamw(module)
    with guarded(tmp_path):
        scheduler = make(torch.optim.lr_scheduler, optimizer)
        for number, (x, y) in enumerate(batches(240), 1):
            loss_of(module, x, y).backward()
            if number % accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
            if not per_epoch or number % 60 == 0:
                scheduler.step()
    return set(alarms(tmp_path))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
@pytest.mark.parametrize(
    ("make", "options", "found"),
    [
        (lambda s, o: s.OneCycleLR(o, 1e-2, total_steps=240), {"per_epoch": True}, True),
        (lambda s, o: s.OneCycleLR(o, 1e-2, total_steps=240), {"per_epoch": False}, False),
        (
            lambda s, o: s.CosineAnnealingLR(o, 60),
            {"per_epoch": False, "accumulate": 4},
            True,
        ),
        (
            lambda s, o: s.CosineAnnealingLR(o, 240),
            {"per_epoch": False, "accumulate": 4},
            False,
        ),
        (lambda s, o: s.StepLR(o, 2), {"per_epoch": True}, False),
        (
            lambda s, o: s.SequentialLR(
                o, [s.LinearLR(o), s.CosineAnnealingLR(o, 200)], milestones=[40]
            ),
            {"per_epoch": False},
            False,
        ),
    ],
)
def test_schedulers_of_torch(make: Any, options: Any, found: bool, tmp_path: Path) -> None:
    codes = trained(make, tmp_path=tmp_path, **options)
    assert codes == ({("GRD030", "warn")} if found else set())

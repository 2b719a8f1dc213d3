"""Learning rates that a resume or a schedule changes by accident, and those that it should."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.optim import lr_scheduler  # noqa: E402, TID253
from trainings import alarms, batches, guarded, loss_of, model, records  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore:Detected call of"),
]

FITS = ("GRD030", "warn")
State = dict[str, Any]


def made(kind: str, adam: bool = True, lr: float = 1e-2) -> tuple[Any, Any, Any]:
    module = model()
    name = torch.optim.AdamW if adam else torch.optim.SGD
    optimizer = name(module.parameters(), lr=lr, **({} if adam else {"momentum": 0.9}))
    schedules: dict[str, Callable[[], Any]] = {
        "step": lambda: lr_scheduler.StepLR(optimizer, 10, gamma=0.3),
        "exponential": lambda: lr_scheduler.ExponentialLR(optimizer, 0.95),
        "cosine": lambda: lr_scheduler.CosineAnnealingLR(optimizer, 100),
        "lambda": lambda: lr_scheduler.LambdaLR(optimizer, lambda n: max(0.01, 1 - n / 60)),
        "warm": lambda: lr_scheduler.LambdaLR(optimizer, lambda n: min(1.0, (n + 1) / 30)),
    }
    return module, optimizer, schedules[kind]


def train(module: Any, optimizer: Any, scheduler: Any, steps: int = 40) -> None:
    for x, y in batches(steps):
        loss_of(module, x, y).backward()
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()


def first(kind: str, **options: Any) -> tuple[State, State]:
    module, optimizer, schedule = made(kind, **options)
    scheduler = schedule()
    train(module, optimizer, scheduler)
    return optimizer.state_dict(), scheduler.state_dict()


def replayed(kind: str, **options: Any) -> None:
    """The scheduler is there before the optimizer's state, and its steps are repeated on it."""
    state, _ = first(kind, **options)
    module, optimizer, schedule = made(kind, **options)
    scheduler = schedule()
    optimizer.load_state_dict(state)
    for _ in range(40):
        scheduler.step()
    train(module, optimizer, scheduler)


def restarted(kind: str, by_hand: float = 0.0) -> None:
    state, _ = first(kind)
    module, optimizer, schedule = made(kind)
    optimizer.load_state_dict(state)
    if by_hand:
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"] = by_hand
    train(module, optimizer, schedule())


def scheduler_alone(kind: str) -> None:
    _, state = first(kind)
    module, optimizer, schedule = made(kind)
    scheduler = schedule()
    scheduler.load_state_dict(state)
    train(module, optimizer, scheduler)


def resumed(kind: str, scheduler_first: bool = False, **options: Any) -> None:
    states = first(kind, **options)
    module, optimizer, schedule = made(kind, **options)
    scheduler = schedule()
    loads = [(optimizer, states[0]), (scheduler, states[1])]
    for each, state in reversed(loads) if scheduler_first else loads:
        each.load_state_dict(state)
    train(module, optimizer, scheduler)


def replayed_before() -> None:
    """The optimizer's state comes last, and has the last word on the rate."""
    state, _ = first("step")
    module, optimizer, schedule = made("step")
    scheduler = schedule()
    for _ in range(40):
        scheduler.step()
    optimizer.load_state_dict(state)
    train(module, optimizer, scheduler)


def with_last_epoch() -> None:
    state, _ = first("lambda")
    module, optimizer, _ = made("lambda")
    optimizer.load_state_dict(state)
    shape = lambda n: max(0.01, 1 - n / 60)  # noqa: E731
    train(module, optimizer, lr_scheduler.LambdaLR(optimizer, shape, last_epoch=39))


def groups(set_rate: Callable[[Any, int], None], first_step: int = 0, apart: float = 100.0) -> None:
    module = model()
    every = list(module.parameters())
    optimizer = torch.optim.AdamW(
        [{"params": every[:2], "lr": 1e-2 / apart}, {"params": every[2:], "lr": 1e-2}]
    )
    for step, (x, y) in enumerate(batches(40)):
        if step >= first_step:
            set_rate(optimizer, step)
        loss_of(module, x, y).backward()
        optimizer.step()
        optimizer.zero_grad()


def overwritten(optimizer: Any, step: int) -> None:
    for group in optimizer.param_groups:
        group["lr"] = 1e-2 * (1 - step / 50)


def scaled(optimizer: Any, step: int) -> None:
    for group in optimizer.param_groups:
        group["lr"] = group.setdefault("initial_lr", group["lr"]) * (1 - step / 50)


def in_the_end(optimizer: Any, step: int) -> None:
    for group in optimizer.param_groups:
        group["lr"] = max(1e-5, group.setdefault("initial_lr", group["lr"]) * (1 - step / 30))


def one_cycle() -> None:
    module = model()
    every = list(module.parameters())
    optimizer = torch.optim.AdamW(
        [{"params": every[:2], "lr": 1e-5}, {"params": every[2:], "lr": 1e-3}]
    )
    train(module, optimizer, lr_scheduler.OneCycleLR(optimizer, max_lr=1e-3, total_steps=60))


def warmed_up() -> None:
    module = model()
    every = list(module.parameters())
    optimizer = torch.optim.AdamW(
        [{"params": every[:2], "lr": 1e-5}, {"params": every[2:], "lr": 1e-3}]
    )
    warm = lr_scheduler.LambdaLR(optimizer, lambda n: min(1.0, n / 10))
    train(module, optimizer, warm)


def both(first: str, second: str, switch: int = 0) -> None:
    """Two schedulers after each step, or one after the other."""
    module, optimizer, schedule = made(first)
    one, other = schedule(), None
    kinds: dict[str, Callable[[], Any]] = {
        "lambda": lambda: lr_scheduler.LambdaLR(optimizer, lambda n: min(1.0, (n + 1) / 10)),
        "linear": lambda: lr_scheduler.LinearLR(optimizer, 0.1, total_iters=10),
    }
    other = kinds[second]()
    for step, (x, y) in enumerate(batches(40)):
        loss_of(module, x, y).backward()
        optimizer.step()
        optimizer.zero_grad()
        for each in (other, one) if not switch else [other if step < switch else one]:
            each.step()


@pytest.mark.parametrize(
    ("run", "cause"),
    [
        (lambda: replayed("step", adam=False), "replayed"),
        (lambda: replayed("exponential"), "replayed"),
        (lambda: restarted("lambda"), "restarted"),
        (lambda: restarted("warm"), "restarted"),
        (lambda: scheduler_alone("step"), "not-restored"),
        (lambda: scheduler_alone("cosine"), "not-restored"),
        (lambda: groups(overwritten), "groups"),
        (lambda: groups(overwritten, first_step=10), "groups"),
        (one_cycle, "groups"),
        (lambda: both("step", "lambda"), "overridden"),
        (lambda: both("cosine", "lambda"), "overridden"),
        (lambda: both("step", "linear"), ""),
        (lambda: both("step", "lambda", switch=12), ""),
        (lambda: resumed("step"), ""),
        (lambda: resumed("cosine", adam=False), ""),
        (lambda: resumed("lambda", scheduler_first=True), ""),
        (lambda: replayed("lambda"), ""),
        (lambda: restarted("lambda", by_hand=5e-3), ""),
        (replayed_before, ""),
        (with_last_epoch, ""),
        (lambda: groups(scaled), ""),
        (lambda: groups(overwritten, apart=1.0), ""),
        (lambda: groups(in_the_end), ""),
        (warmed_up, ""),
    ],
)
def test_the_rate_after_a_change(run: Callable[[], None], cause: str, tmp_path: Path) -> None:
    with guarded(tmp_path):
        run()
    found = {each["cause"] for each in records(tmp_path, "alarm") if each["code"] == "GRD030"}
    assert found == ({cause} if cause else set())
    assert (FITS in alarms(tmp_path)) is bool(cause)

"""Buffers, mode, idle optimizers and accumulated passes of real trainings in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from trainings import alarms, guarded  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]


def network() -> Any:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.1)]
    return torch.nn.Sequential(*layers, torch.nn.Linear(8, 1))


def loss_of(module: Any) -> Any:
    x = torch.randn(8, 4)
    return (module(x) - x.sum(1, keepdim=True)).pow(2).mean()


def train(
    module: Any,
    steps: int,
    before_step: Callable[[int], None] = lambda step: None,
    beside: Any = None,
) -> None:
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    for step in range(1, steps + 1):
        loss = loss_of(module)
        if beside is not None:
            loss = loss + loss_of(beside)
        loss.backward()
        before_step(step)
        optimizer.step()
        optimizer.zero_grad()


def spoil(module: Any) -> Callable[[int], None]:
    def before(step: int) -> None:
        if step == 30:
            module[1].running_var.fill_(float("nan"))

    return before


def masks(module: Any) -> None:
    """A causal mask holds -inf, and one more is made later."""
    module.register_buffer("mask", torch.full((4, 4), float("-inf")).triu(1))

    def before(step: int) -> None:
        if step == 30:
            module.register_buffer("longer", torch.full((8, 8), float("-inf")).triu(1))

    train(module, 60, before)


def with_frozen_norm(module: Any) -> None:
    module[1].eval()
    train(module, 210)


def beside_an_idle_optimizer(module: Any, steps: int = 210) -> None:
    other = network()
    idle = torch.optim.AdamW(other.parameters(), lr=1e-3)
    train(module, steps, beside=other)
    assert not idle.state


def wrapped(module: Any) -> None:
    """An optimizer around the one that steps has the same parameters."""
    outer = torch.optim.SGD(module.parameters(), lr=1e-3)
    train(module, 210)
    assert not outer.state


def accumulate(module: Any, clear: bool, assign: bool = False, passes: int = 4) -> None:
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    for _ in range(12):
        sums = [torch.zeros_like(p) for p in module.parameters()]
        for _ in range(passes):
            if clear:
                optimizer.zero_grad()
            loss_of(module).backward()
            sums = [a + p.grad for a, p in zip(sums, module.parameters(), strict=True)]
        if assign:
            for p, a in zip(module.parameters(), sums, strict=True):
                p.grad = a
        optimizer.step()
        optimizer.zero_grad()


def left_out(module: Any, steps: int = 210, by_hand: bool = False) -> None:
    """The last layer gets gradients and is in no optimizer."""
    optimizer = torch.optim.AdamW(module[:2].parameters(), lr=1e-3)
    for _ in range(steps):
        module.zero_grad()
        loss_of(module).backward()
        optimizer.step()
        if by_hand:
            for parameter in module[-1].parameters():
                parameter.data.sub_(1e-3 * parameter.grad)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (lambda m: train(m, 60, spoil(m)), {("GRD024", "fail")}),
        (masks, set()),
        (lambda m: train(m.eval(), 210), {("GRD025", "warn")}),
        (lambda m: train(m.eval(), 40), set()),
        (with_frozen_norm, set()),
        (beside_an_idle_optimizer, {("GRD011", "warn")}),
        (lambda m: beside_an_idle_optimizer(m, 110), set()),
        (wrapped, set()),
        (left_out, {("GRD003", "warn")}),
        (lambda m: left_out(m, by_hand=True), set()),
        (lambda m: left_out(m, 110), {("GRD003", "warn")}),
        (lambda m: left_out(m, 60), set()),
        (lambda m: left_out(m[3].requires_grad_(False) and m), set()),
        (lambda m: accumulate(m, clear=True), {("GRD012", "warn")}),
        (lambda m: accumulate(m, clear=False), set()),
        (lambda m: accumulate(m, clear=True, assign=True), set()),
        (lambda m: accumulate(m, clear=True, passes=2), set()),
    ],
    ids=[
        "NaN in a running variance", "masks", "evaluation mode", "evaluation mode, one look",
        "a frozen norm", "never stepped", "never stepped, one look", "a wrapper",
        "in no optimizer", "changed by hand", "in no optimizer for 110 steps",
        "in no optimizer, one look", "frozen",
        "cleared between", "accumulated", "gradients per sample", "as SAM",
    ],
)  # fmt: skip
def test_what_the_looks_at_the_model_name(
    program: Callable[[Any], None], expected: set[tuple[str, str]], tmp_path: Path
) -> None:
    with guarded(tmp_path):
        program(network())
    assert set(alarms(tmp_path)) == expected

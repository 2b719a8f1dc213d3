"""Programs that end and have trained nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402, TID253
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402, TID253
from trainings import adamw, alarms, batches, guarded, loss_of, model, records, train  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

NEVER, NO_GRADIENT = ("GRD011", "fail"), ("GRD003", "fail")


def passes(count: int, *, by_hand: bool = False, clears: bool = False, steps: int = 0) -> None:
    module = model()
    optimizer = adamw(module)
    for i, (x, y) in enumerate(batches(count)):
        if clears:
            optimizer.zero_grad()
        loss_of(module, x, y).backward()
        if by_hand:
            with torch.no_grad():
                for p in module.parameters():
                    p -= 0.01 * p.grad
        if i < steps:
            optimizer.step()


def measured(kind: str) -> None:
    """Gradients are what is wanted, and an optimizer is there."""
    module = model()
    optimizer = adamw(module)
    information = [torch.zeros_like(p) for p in module.parameters()]
    for x, y in batches(40):
        optimizer.zero_grad()
        loss_of(module, x, y).backward()
        if kind == "norm":
            nn.utils.clip_grad_norm_(module.parameters(), float("inf"))
        elif kind == "hooks":
            module[0].weight.register_hook(lambda gradient: gradient.abs())
        elif kind == "fisher":
            for total, p in zip(information, module.parameters(), strict=True):
                total += p.grad.square()


def timed() -> None:
    module = model()
    optimizer = adamw(module)
    for x, y in batches(40):
        loss_of(module, x, y).backward()
    assert optimizer.param_groups


def without_optimizer() -> None:
    module = model()
    for x, y in batches(40):
        loss_of(module, x, y).backward()


@pytest.mark.parametrize(
    ("run", "found"),
    [
        (lambda: passes(40), True),
        (lambda: passes(40, clears=True), True),
        (lambda: passes(12), False),  # may be the beginning of an accumulation
        (lambda: passes(40, by_hand=True), False),
        (lambda: passes(40, steps=1), False),
        (lambda: measured("norm"), False),
        (lambda: measured("fisher"), False),
        (lambda: measured("hooks"), False),
        (timed, False),
        (without_optimizer, False),
    ],
)
def test_an_optimizer_that_never_steps(
    run: Callable[[], None], found: bool, tmp_path: Path
) -> None:
    with guarded(tmp_path):
        run()
    assert (NEVER in alarms(tmp_path)) is found


def forgotten() -> None:
    module = model()
    optimizer = adamw(module)
    for x, y in batches(40):
        optimizer.zero_grad()
        loss_of(module, x, y).backward()


def test_a_step_that_is_not_called_anywhere_is_a_warning(tmp_path: Path) -> None:
    with guarded(tmp_path):
        forgotten()
    assert alarms(tmp_path).keys() == {("GRD011", "warn")}


def over(
    rows: int, drops: bool, *, evaluates: bool = False, trains: bool = True, workers: int = 0
) -> None:
    module = model()
    optimizer = adamw(module) if trains else None
    loader = DataLoader(
        TensorDataset(torch.randn(rows, 4)), batch_size=8, drop_last=drops, num_workers=workers
    )
    with torch.set_grad_enabled(not evaluates):
        for _ in range(2):
            for _ in loader:
                pass
    assert (optimizer is not None) is trains


class Drawn:
    """A sampler that has no length yet."""

    def __iter__(self) -> Any:
        return iter([[0, 1], [2, 3]])

    def __len__(self) -> int:
        raise ValueError("not drawn")


def test_a_sampler_without_a_length_does_not_end_the_guard(tmp_path: Path) -> None:
    module, sampler = nn.Linear(4, 1), Drawn()
    optimizer = adamw(module)
    with guarded(tmp_path):
        for _ in range(3):
            for (x,) in DataLoader(TensorDataset(torch.randn(4, 4)), batch_sampler=sampler):
                module(x).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
    assert [each["how"] for each in records(tmp_path, "end")] == ["exit"]


def beside() -> None:
    over(5, True)
    train(model(), adamw(model()), 3)


@pytest.mark.parametrize(
    ("run", "found"),
    [
        (lambda: over(5, True), True),
        (lambda: over(5, True, workers=1), True),
        (lambda: over(5, True, trains=False), False),
        (lambda: over(5, False), False),
        (lambda: over(16, True), False),
        (lambda: over(5, True, evaluates=True), False),
        (beside, False),
    ],
)
def test_a_loader_without_a_batch(run: Callable[[], None], found: bool, tmp_path: Path) -> None:
    with guarded(tmp_path):
        run()
    assert (NEVER in alarms(tmp_path)) is found


class Own(torch.optim.Optimizer):
    """One that needs no gradient."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 1e-3})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                p.add_(torch.randn_like(p), alpha=group["lr"])


def steps_alone(make: Callable[[Any], Any], count: int, *, assigned: bool = False) -> None:
    module = model()
    optimizer = make(module.parameters())
    for _ in range(count):
        if assigned:
            for p in module.parameters():
                p.grad = torch.ones_like(p)
        optimizer.step()


@pytest.mark.parametrize(
    ("run", "found"),
    [
        (lambda: steps_alone(torch.optim.Adam, 20), True),
        (lambda: steps_alone(torch.optim.Adam, 3), False),
        (lambda: steps_alone(torch.optim.Adam, 20, assigned=True), False),
        (lambda: steps_alone(Own, 20), False),
    ],
)
def test_steps_without_any_pass(run: Callable[[], None], found: bool, tmp_path: Path) -> None:
    with guarded(tmp_path):
        run()
    causes = {each["cause"] for each in records(tmp_path, "alarm")}
    assert ("no-backward" in causes) is found


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda _, loss: torch.tensor(loss.item(), requires_grad=True), "rebuilt"),
        (lambda _, loss: loss.detach().requires_grad_() * 2.0, "rebuilt"),
        (lambda _, loss: loss, ""),
    ],
)
def test_a_loss_that_begins_anew(change: Any, cause: str, tmp_path: Path) -> None:
    module = model()
    with guarded(tmp_path):
        train(module, adamw(module), 8, change=change)
    assert [each["cause"] for each in records(tmp_path, "alarm")] == [cause] * bool(cause)


def closures(*, clears: str, micro: int = 1, lr: float = 0.1, search: str | None = None) -> None:
    module = nn.Linear(4, 1)
    optimizer = torch.optim.LBFGS(module.parameters(), lr=lr, max_iter=5, line_search_fn=search)
    x = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))

    def closure() -> Any:
        if clears:
            optimizer.zero_grad(set_to_none=clears == "none")
        total = torch.zeros(())
        for part in x.chunk(micro):
            loss = (module(part) - part.sum(1, keepdim=True).sin()).square().mean() / micro
            loss.backward()
            total = total + loss.detach()
        return total

    for _ in range(12):
        if not clears:
            optimizer.zero_grad()
        optimizer.step(closure)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"clears": ""}, True),
        ({"clears": "", "lr": 1e-3}, True),
        ({"clears": "none"}, False),
        ({"clears": "zeros"}, False),
        ({"clears": "none", "micro": 4}, False),
        ({"clears": "none", "search": "strong_wolfe"}, False),
    ],
)
def test_a_closure_that_clears_nothing(options: Any, found: bool, tmp_path: Path) -> None:
    with guarded(tmp_path):
        closures(**options)
    assert ("closure" in {each["cause"] for each in records(tmp_path, "alarm")}) is found


def test_two_optimizers_of_one_network_and_none_of_the_other(tmp_path: Path) -> None:
    actor, critic = nn.Linear(4, 2), nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizers = [torch.optim.Adam(critic.parameters(), 1e-3) for _ in range(2)]
    with guarded(tmp_path):
        for _ in range(120):
            x = torch.randn(8, 4)
            losses = (
                lambda: critic(torch.randn(8, 6)).square().mean(),
                lambda x=x: -critic(torch.cat([x, actor(x)], 1)).mean(),
            )
            for optimizer, loss in zip(optimizers, losses, strict=True):
                optimizer.zero_grad()
                loss().backward()
                optimizer.step()
    assert "held-twice" in {each["cause"] for each in records(tmp_path, "alarm")}


def test_a_loss_that_is_to_grow(tmp_path: Path) -> None:
    """Unlearning: the optimizer maximizes."""
    torch.manual_seed(0)
    module = nn.Linear(16, 4)
    optimizer = torch.optim.SGD(module.parameters(), 0.5, maximize=True)
    x, y = torch.randn(64, 16), torch.randint(0, 4, (64,))
    with guarded(tmp_path):
        for _ in range(150):
            optimizer.zero_grad()
            nn.functional.cross_entropy(module(x), y).backward()
            optimizer.step()
    assert not alarms(tmp_path)

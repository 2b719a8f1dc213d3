"""Averages of weights, targets and teachers beside a model that is trained."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402, TID253
from torch.optim.swa_utils import AveragedModel, update_bn  # noqa: E402, TID253
from trainings import adamw, alarms, guarded, records  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

FOLLOWS = ("GRD032", "warn")


def network(norm: bool = True) -> Any:
    torch.manual_seed(0)
    parts = [nn.Linear(4, 8), nn.BatchNorm1d(8) if norm else nn.LayerNorm(8), nn.ReLU()]
    return nn.Sequential(*parts, nn.Linear(8, 1))


def inputs() -> Any:
    return torch.randn(16, 4) + 3.0


def train(model: Any, after: Callable[[], None], steps: int = 120, uses: Any = None) -> None:
    optimizer = adamw(model, lr=1e-2)
    for _ in range(steps):
        x = inputs()
        target = x.sum(1, keepdim=True).tanh()
        if uses is not None:
            with torch.no_grad():
                target = target + uses(x)
        (model(x) - target).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        after()


def averaged(decay: float, buffers: bool = False, norm: bool = True, mode: bool = False) -> None:
    """A loop's own average; `mode`: it is in training mode and runs, as a mean teacher does."""
    model = network(norm)
    average = copy.deepcopy(model).requires_grad_(False)
    average.train(mode)

    def after() -> None:
        with torch.no_grad():
            for a, p in zip(average.parameters(), model.parameters(), strict=True):
                a.mul_(decay).add_(p, alpha=1 - decay)
            if buffers:
                for a, p in zip(average.buffers(), model.buffers(), strict=True):
                    a.copy_(p)

    train(model, after, uses=average if mode else None)


class Both(nn.Module):
    """Online and target network in one module, as in contrastive and Q-learning."""

    def __init__(self, norm: bool) -> None:
        super().__init__()
        self.online = network(norm)
        self.target = copy.deepcopy(self.online).requires_grad_(False)

    def follow(self, tau: float) -> None:
        online, target = self.online.state_dict(), self.target.state_dict()
        with torch.no_grad():
            for name, tensor in self.target.named_parameters():
                tensor.copy_((1 - tau) * target[name] + tau * online[name])


def target_network(tau: float, norm: bool = False) -> None:
    both = Both(norm)
    train(both.online, lambda: both.follow(tau))


def synchronized(every: int) -> None:
    """A copy for rollouts gets the weights as they are."""
    model = network(norm=False)
    actor, count = copy.deepcopy(model), iter(range(1000))
    train(
        model, lambda: actor.load_state_dict(model.state_dict()) if next(count) % every == 0 else 0
    )


def torch_average(use_buffers: bool, update: bool) -> None:
    model = network()
    average = AveragedModel(model, use_buffers=use_buffers)
    train(model, lambda: average.update_parameters(model))
    if update:
        update_bn([inputs() for _ in range(4)], average)


def frozen_teacher() -> None:
    model = network()
    teacher = copy.deepcopy(model).eval().requires_grad_(False)
    train(model, lambda: None, uses=teacher)


def frozen_statistics() -> None:
    """The trained model's norms do not gather anything either."""
    model = network().eval()
    average = copy.deepcopy(model)

    def after() -> None:
        with torch.no_grad():
            for a, p in zip(average.parameters(), model.parameters(), strict=True):
                a.lerp_(p, 0.01)

    train(model, after)


@pytest.mark.parametrize(
    ("run", "cause"),
    [
        (lambda: averaged(0.99), "statistics"),
        (lambda: target_network(0.01, norm=True), "statistics"),
        (lambda: averaged(0.01, buffers=True), "decay"),
        (lambda: target_network(0.995), "decay"),
        (lambda: target_network(0.95), "decay"),
        (lambda: averaged(0.99, buffers=True), ""),
        (lambda: averaged(0.9, norm=False), ""),
        (lambda: averaged(0.99, mode=True), ""),
        (lambda: target_network(0.3), ""),
        (lambda: synchronized(1), ""),
        (lambda: synchronized(7), ""),
        (lambda: torch_average(use_buffers=True, update=False), ""),
        (lambda: torch_average(use_buffers=False, update=False), ""),
        (lambda: torch_average(use_buffers=False, update=True), ""),
        (frozen_teacher, ""),
        (frozen_statistics, ""),
    ],
)
def test_an_average_averages(run: Callable[[], None], cause: str, tmp_path: Path) -> None:
    with guarded(tmp_path):
        run()
    assert (FOLLOWS in alarms(tmp_path)) is bool(cause)
    assert cause in " ".join(each["cause"] for each in records(tmp_path, "alarm"))


def test_what_is_beside_the_model_is_counted(tmp_path: Path) -> None:
    with guarded(tmp_path):
        averaged(0.99, buffers=True)
    assert records(tmp_path, "state")[-1]["followers"] == 1

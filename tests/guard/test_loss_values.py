"""What the values in the first graphs show: targets out of range, ratios that are always 1."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402, TID253
from torch.nn import functional as F  # noqa: E402, TID253
from trainings import adamw, guarded, records  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

Loss = Callable[[Any, Any], Any]


def causes(out: Path, *codes: str) -> set[str]:
    return {each["cause"] for each in records(out, "alarm") if each["code"] in codes}


def fit(loss: Loss, last: Any = None, target: Callable[[Any], Any] = lambda x: x) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 4), *([last] if last is not None else []))
    optimizer = adamw(module)
    for _ in range(12):
        x = torch.randn(16, 4)
        loss(module(x), target(x)).backward()
        optimizer.step()
        optimizer.zero_grad()


def unit(x: Any) -> Any:
    return (x - x.min()) / (x.max() - x.min())


def masked(out: Any, target: Any) -> Any:
    """Labels of -1 are missing."""
    each = F.binary_cross_entropy_with_logits(out, target, reduction="none")
    return (each * (target >= 0)).sum() / 64


BCE, MSE = F.binary_cross_entropy_with_logits, F.mse_loss
MASK = (lambda x: (x > 0) * 255.0, lambda x: (x > 0) * 2.0 - 1.0, lambda x: (x > 0) + 1.0)


@pytest.mark.parametrize(
    ("run", "cause"),
    [
        *[(lambda t=t: fit(BCE, target=t), "targets") for t in MASK],
        (lambda: fit(MSE, nn.Sigmoid()), "range"),
        (lambda: fit(lambda out, y: MSE(y, out), nn.Sigmoid()), "range"),
        (lambda: fit(F.smooth_l1_loss, nn.Tanh(), lambda x: 3 * x), "range"),
        (lambda: fit(F.l1_loss, nn.ReLU()), "range"),
        (lambda: fit(lambda out, y: (y - out).pow(2).mean(), nn.Tanh(), lambda x: 5 * x), "range"),
        (lambda: fit(lambda out, y: MSE(out.view(-1), y.view(-1)), nn.Softmax(1)), "range"),
        (lambda: fit(BCE, target=lambda x: (x > 0).float()), ""),
        (lambda: fit(BCE, target=lambda x: 0.05 + 0.9 * (x > 0)), ""),
        (lambda: fit(masked, target=lambda x: (x > 0).float() - (x > 1) * 2.0), ""),
        (lambda: fit(MSE, nn.Sigmoid(), unit), ""),
        (lambda: fit(MSE, nn.Tanh(), lambda x: x.clamp(-1, 1)), ""),
        (lambda: fit(MSE, nn.ReLU(), torch.relu), ""),
        (lambda: fit(MSE), ""),
        (lambda: fit(F.l1_loss, nn.Sigmoid(), unit), ""),
        (lambda: fit(lambda out, y: MSE(out * 4 - 2, y), nn.Sigmoid()), ""),
    ],
)
def test_targets_can_be_reached(run: Callable[[], None], cause: str, tmp_path: Path) -> None:
    with guarded(tmp_path):
        run()
    assert causes(tmp_path, "GRD029") == ({cause} if cause else set())


def policy(
    old: str = "stored",
    epochs: int = 8,
    rounds: int = 6,
    normalize: bool = False,
    clip: bool = True,
) -> None:
    """PPO; `old`: when the log-probabilities are computed that the new ones are divided by."""
    torch.manual_seed(0)
    actor, critic = nn.Linear(4, 3), nn.Linear(4, 1)
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-2)

    def log_probability(states: Any, actions: Any) -> Any:
        return torch.distributions.Categorical(logits=actor(states)).log_prob(actions)

    for _ in range(rounds):
        states, returns = torch.randn(64, 4), torch.randn(64)
        actions = torch.randint(0, 3, (64,))
        with torch.no_grad():
            stored = log_probability(states, actions)
        for _ in range(epochs):
            for part in torch.randperm(64).split(32):
                new = log_probability(states[part], actions[part])
                before = {"stored": stored[part], "anew": new.detach()}[old]
                value = critic(states[part]).squeeze(-1)
                gain = (returns[part] - value).detach()
                gain = (gain - gain.mean()) / gain.std() if normalize else returns[part]
                ratio = (new - before).exp()
                kept = (
                    torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain) if clip else ratio * gain
                )
                loss = F.mse_loss(value, returns[part]) * 0.5 - kept.mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()


@pytest.mark.parametrize(
    ("run", "found"),
    [
        (lambda: policy("anew"), True),
        (lambda: policy("anew", normalize=True), True),
        (lambda: policy("anew", epochs=1, rounds=40), False),
        (policy, False),
        (lambda: policy(normalize=True), False),
        (lambda: policy("anew", clip=False), False),
    ],
)
def test_old_probabilities_are_old(run: Callable[[], None], found: bool, tmp_path: Path) -> None:
    with guarded(tmp_path):
        run()
    assert ("ratio" in causes(tmp_path, "GRD029")) is found


def falls(loss: Loss, steps: int = 400, rate: float = 0.3) -> None:
    torch.manual_seed(0)
    module = nn.Linear(4, 3)
    optimizer = torch.optim.Adam(module.parameters(), lr=rate)
    for _ in range(steps):
        x = torch.randn(32, 4)
        loss(module(x), x[:, :3].argmax(1)).backward()
        optimizer.step()
        optimizer.zero_grad()


def likelihood(out: Any, y: Any) -> Any:
    """A density that becomes sharp, down to a bound."""
    return out.square().mean() + out[:, 0].clamp(-50, 50).mean()


@pytest.mark.parametrize(
    ("loss", "found"),
    [
        (lambda out, y: -F.cross_entropy(out, y), True),
        (lambda out, y: F.cross_entropy(out, y) - out.square().mean(), True),
        (F.cross_entropy, False),
        (lambda out, y: -out.gather(1, y[:, None]).sigmoid().mean(), False),
        (likelihood, False),
    ],
)
def test_a_loss_has_a_bound(loss: Loss, found: bool, tmp_path: Path) -> None:
    with guarded(tmp_path):
        falls(loss)
    assert ("unbounded" in causes(tmp_path, "GRD014")) is found


def poisoned(target: bool) -> Callable[[Any, Any], Any]:
    steps = iter(range(1000))

    def loss(out: Any, y: Any) -> Any:
        wanted = F.one_hot(y, 3).float()
        if next(steps) == 20:
            if target:
                wanted = wanted / (wanted.sum() * 0.0)
            else:
                out = out.clamp(max=0.0).sqrt() * 0.0 + out
        return -(wanted * out.log_softmax(1)).sum(1).mean()

    return loss


@pytest.mark.parametrize(
    ("loss", "cause"),
    [
        (poisoned(target=True), "constant"),
        (poisoned(target=False), "undefined"),
    ],
)
def test_what_is_not_finite_is_named(loss: Loss, cause: str, tmp_path: Path) -> None:
    with guarded(tmp_path):
        falls(loss, steps=24, rate=1e-2)
    assert causes(tmp_path, "GRD001") == {cause}


def growing(reduction: str) -> None:
    """Batches grow, and a sum with them."""
    torch.manual_seed(0)
    module = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(module.parameters(), lr=2e-2)
    for step in range(400):
        x = torch.randn(8 if step < 40 else 256, 8)
        F.mse_loss(module(x), x.sum(1, keepdim=True), reduction=reduction).backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize(("reduction", "cause"), [("sum", {"summed"}), ("mean", set())])
def test_a_sum_that_diverges(reduction: str, cause: set[str], tmp_path: Path) -> None:
    with guarded(tmp_path):
        growing(reduction)
    assert causes(tmp_path, "GRD001") == cause


def attends(key: bool) -> Callable[[Any, Any], Any]:
    """A row of a softmax that a mask leaves nothing, and that the loss leaves out."""
    steps = iter(range(1000))

    def loss(out: Any, y: Any) -> Any:
        mask = torch.zeros_like(out)
        if next(steps) == 20 and not key:
            mask[0] = -math.inf
        return F.nll_loss((out + mask).softmax(1)[1:].log(), y[1:])

    return loss


@pytest.mark.parametrize(("key", "found"), [(False, {"derivative"}), (True, set())])
def test_a_derivative_that_is_not_finite(key: bool, found: set[str], tmp_path: Path) -> None:
    with guarded(tmp_path):
        falls(attends(key), steps=24, rate=1e-2)
    assert causes(tmp_path, "GRD002") == found


@pytest.mark.parametrize(("undivided", "cause"), [(True, {"undivided"}), (False, set())])
def test_scaled_gradients_explain_what_diverges(
    undivided: bool, cause: set[str], tmp_path: Path
) -> None:
    with guarded(tmp_path):
        torch.manual_seed(0)
        module = nn.Linear(8, 1)
        optimizer = torch.optim.SGD(module.parameters(), lr=1e-2)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        for _ in range(60):
            x = torch.randn(32, 8)
            optimizer.zero_grad()
            scaler.scale(F.mse_loss(module(x), x.sum(1, keepdim=True))).backward()
            if undivided:
                optimizer.step()
            else:
                scaler.step(optimizer)
                scaler.update()
    assert causes(tmp_path, "GRD001", "GRD002") == cause

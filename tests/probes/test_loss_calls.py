"""What the inputs of a loss are made by, and what they can reach."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from doctor.probes.training_side.calls.loss_calls import LossCalls, misuse  # noqa: E402

pytestmark = pytest.mark.slow


def made(activation: Any) -> Any:
    torch.manual_seed(0)
    return activation(torch.nn.Linear(4, 1)(torch.randn(64, 4)))


STANDARDIZED = torch.linspace(-2, 2, 64)[:, None]


@pytest.mark.parametrize("loss", ["mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss"])
@pytest.mark.parametrize("name", ["relu", "sigmoid", "tanh", "softplus"])
def test_targets_that_an_activation_cannot_reach(loss: str, name: str) -> None:
    activation = getattr(torch.nn.functional, name)
    assert misuse(loss, made(activation), STANDARDIZED) == "bounded"
    assert misuse(loss, made(activation).squeeze(1), STANDARDIZED.squeeze(1)) == "bounded"


@pytest.mark.parametrize(
    ("activation", "target"),
    [
        (lambda x: x, STANDARDIZED),
        (torch.relu, STANDARDIZED.abs()),
        (torch.sigmoid, (STANDARDIZED > 0).float()),
        (torch.tanh, STANDARDIZED / 2),
        (lambda x: 4 * torch.tanh(x), STANDARDIZED),
        (lambda x: torch.relu(x) - 2, STANDARDIZED),
        (torch.relu, torch.where(torch.arange(64)[:, None] < 4, -1.0, 1.0)),  # 6 % outliers
    ],
)
def test_targets_within_reach(activation: Any, target: Any) -> None:
    assert misuse("mse_loss", made(activation), target) == ""


MASK = torch.tensor([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 1.0], [1.0, 1.0, 0.0]])
WEIGHTS = torch.tensor([0.5, 1.0, 2.0, 1.5])
VALID = torch.tensor([1.0, 0.0, 1.0, 1.0])


def scale_invariant(y: Any) -> Any:
    """As in SI-SDR: one scale for all."""
    scale = (y * MASK).sum() / (MASK * MASK).sum()
    return (y - scale * MASK).pow(2).sum() + (scale * VALID).sum()


@pytest.mark.parametrize(
    ("loss", "found"),
    [
        (lambda y: ((-0.5 * torch.sum(y.pow(2))) * (VALID > 0).float()).sum(), "Sum"),
        (lambda y: (VALID.clone() * y.pow(2).mean()).sum() / VALID.sum(), "Mean"),
        (lambda y: (torch.nn.functional.mse_loss(y, MASK) * VALID).mean(), "MseLoss"),
        (lambda y: (torch.nn.functional.mse_loss(y, MASK) * WEIGHTS).mean(), ""),
        (lambda y: (MASK * y.pow(2).mean()).sum(), ""),
        (scale_invariant, ""),
        (lambda y: (y.pow(2).sum(-1) * VALID).mean(), ""),
        (lambda y: (y.pow(2) * MASK).sum() / MASK.sum(), ""),
        (lambda y: y.pow(2).sum() * WEIGHTS.sum(), ""),
        (lambda y: (y.sign().detach() * y.abs().mean() - MASK).pow(2).mean(), ""),
        (lambda y: (y - y.mean()).pow(2).mean() * 0.1 + y.sum(), ""),
    ],
)
def test_one_number_for_all_samples_that_is_multiplied_by_a_mask(loss: Any, found: str) -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(5, 3)
    calls = LossCalls(model, {"mask": MASK, "weights": WEIGHTS})
    with calls:
        loss(model(torch.randn(4, 5)))
    kinds = [(each["kind"], each["function"].partition(",")[0]) for each in calls.misused.values()]
    assert kinds == ([("reduced", found)] if found else [])


def unit(*size: int) -> Any:
    return torch.nn.functional.normalize(torch.randn(*size, requires_grad=True), dim=-1)


@pytest.mark.parametrize(
    ("scale", "classes", "found"),
    [(0.07, 64, True), (0.3, 300, True), (1.0, 8, False), (14.3, 64, False), (1.0, 2, False)],
)
def test_cosines_that_a_softmax_cannot_tell_apart(scale: float, classes: int, found: bool) -> None:
    torch.manual_seed(0)
    with LossCalls(torch.nn.Linear(1, 1)) as calls:
        logits = unit(16, 12) @ unit(classes, 12).t() * scale
        torch.nn.functional.cross_entropy(logits, torch.arange(16) % classes)
    assert [each["kind"] for each in calls.misused.values()] == (["cosines"] if found else [])


def test_small_logits_that_are_no_cosines_and_flat_activations() -> None:
    torch.manual_seed(0)
    x = torch.randn(16, 12, requires_grad=True)
    with LossCalls(torch.nn.Linear(1, 1)) as calls:
        torch.nn.functional.cross_entropy(x @ unit(64, 12).t() * 0.01, torch.arange(16))
        torch.sigmoid(20 * x), torch.tanh(0.1 * x), torch.sigmoid(x.detach() * 20)
    assert not calls.misused
    assert len(calls.scales.saturated()) == 1
    assert "% of what sigmoid in " in calls.scales.saturated()[0]

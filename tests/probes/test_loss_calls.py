"""What the inputs of a loss are made by, and what they can reach."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from doctor.probes.training_side.calls.loss_calls import misuse  # noqa: E402

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

"""Softmaxes over the samples, and one row for all of them, beside what looks like these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
F: Any = pytest.importorskip("torch.nn.functional")

from doctor.probes.training_side.calls.loss_calls import LossCalls  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:Using a target size")]
SAMPLES, CLASSES = 6, 4
Y = torch.arange(SAMPLES) % CLASSES
ROWS = torch.arange(SAMPLES)
TARGETS = torch.randn(SAMPLES, CLASSES)


def kinds(loss: Callable[[Any], Any]) -> list[str]:
    x = torch.randn(SAMPLES, 5)
    layer = torch.nn.Linear(5, CLASSES)
    calls = LossCalls(layer, (x, Y))
    with calls:
        loss(layer(x)).sum().backward()
    return [each["kind"] for each in calls.misused.values()]


@pytest.mark.parametrize(
    "loss",
    [
        lambda out: -out.log_softmax(0)[ROWS, Y].mean(),
        lambda out: -out.softmax(dim=0).log().gather(1, Y[:, None]).mean(),
        lambda out: -(F.log_softmax(out, dim=-2) * F.one_hot(Y, CLASSES)).sum(1).mean(),
    ],
    ids=["by number", "gather", "one-hot"],
)
def test_a_softmax_over_the_samples_that_is_read_by_label(loss: Callable[[Any], Any]) -> None:
    assert kinds(loss) == ["over samples"]


@pytest.mark.parametrize(
    "loss",
    [
        lambda out: -out.log_softmax(1)[ROWS, Y].mean(),
        lambda out: (out.softmax(0) * out).sum(0),
        lambda out: (out.softmax(0) * TARGETS).sum(),
        lambda out: -(out @ out.T).log_softmax(0)[ROWS, ROWS].mean(),
    ],
    ids=["over the classes", "pooling", "weights of samples", "contrastive"],
)
def test_other_softmaxes(loss: Callable[[Any], Any]) -> None:
    assert kinds(loss) == []


@pytest.mark.parametrize(
    "reduce",
    [
        lambda out: out.mean(0, keepdim=True),
        lambda out: out.sum(-2)[None],
        lambda out: out.amax(0, keepdim=True) * 2,
        lambda out: out.view(1, -1)[:, : out.shape[1]],
    ],
)
def test_one_row_that_was_computed_of_all_samples(reduce: Callable[[Any], Any]) -> None:
    assert kinds(lambda out: F.mse_loss(reduce(out), TARGETS)) == ["one row"]


@pytest.mark.parametrize(
    ("loss", "kind"),
    [
        (lambda out: F.mse_loss(out, TARGETS[:, :1]), ["repeated"]),
        (lambda out: F.mse_loss(out @ out.T, TARGETS[:, 0]), ["repeated"]),
        (lambda out: F.mse_loss(out[:, :1], TARGETS), ["repeated"]),
        (lambda out: F.mse_loss(out[:, :1].expand_as(TARGETS), TARGETS), []),
        (lambda out: F.mse_loss(out, TARGETS[:, :1].expand_as(out)), []),
        (lambda out: F.mse_loss(torch.stack([out, out]), TARGETS), []),
        (lambda out: F.mse_loss(out, TARGETS[:1]), []),
        (lambda out: F.mse_loss(out, TARGETS[:, :1], reduction="none"), []),
        (lambda out: F.cross_entropy((out.softmax(1) + out.softmax(1)) / 2, Y), ["softmax"]),
        (lambda out: F.cross_entropy(out, Y), []),
    ],
)
def test_one_target_for_several_predictions_and_means_of_probabilities(
    loss: Callable[[Any], Any], kind: list[str]
) -> None:
    assert kinds(loss) == kind


CENTRE = torch.nn.Parameter(torch.zeros(1, CLASSES))


@pytest.mark.parametrize(
    "loss",
    [
        lambda out: F.mse_loss(out, TARGETS),
        lambda out: F.mse_loss(CENTRE, TARGETS) + out.mean(),
        lambda out: F.mse_loss(out.mean(0, keepdim=True), TARGETS.mean(0, keepdim=True)),
        lambda out: F.mse_loss(out.mean(0, keepdim=True).expand_as(out), out),
        lambda out: F.mse_loss(CENTRE.view(1, -1), TARGETS) + out.view(1, -1).mean(),
    ],
    ids=["rows", "a constant", "means", "spread", "a view of a constant"],
)
def test_rows_that_are_meant_so(loss: Callable[[Any], Any]) -> None:
    assert kinds(loss) == []

"""What a loss does to the mode of the model, and what a view takes for patches of an image."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from doctor.probes.training_side.subject import turned_off  # noqa: E402
from doctor.probes.training_side.trials import axes  # noqa: E402

pytestmark = pytest.mark.slow


def evaluates_first(model: Any, x: Any) -> Any:
    with torch.no_grad():
        model.eval()
        model(x)
    return model(x)


def evaluates_and_returns(model: Any, x: Any) -> Any:
    with torch.no_grad():
        model.eval()(x)
    return model.train()(x)


def freezes_the_norms(model: Any, x: Any) -> Any:
    model[1].eval()
    return model(x)


def attacks_first(model: Any, x: Any) -> Any:
    model.eval()(x)
    return model.train()(x)


@pytest.mark.parametrize(
    ("loss", "kinds"),
    [
        (evaluates_first, {"BatchNorm1d", "Dropout"}),
        (evaluates_and_returns, set()),
        (freezes_the_norms, set()),
        (attacks_first, set()),
    ],
)
def test_a_loss_that_leaves_the_model_in_evaluation(loss: Any, kinds: set[str]) -> None:
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.3)
    )
    found: set[str] = set()
    with turned_off.turned_off(model, found):
        loss(model, torch.randn(6, 4))
    assert found == kinds
    model.eval()
    with turned_off.turned_off(model, found := set()):
        model(torch.randn(6, 4))
    assert not found


@pytest.mark.parametrize(
    ("before", "after", "patches"),
    [
        ((8, 3, 32, 32), (8, 16, 192), True),
        ((8, 1, 28, 28), (8, 16, 49), True),
        ((8, 3, 32, 64), (8, 32, 192), True),
        ((8, 1, 16, 16), (8, 16, 16), False),  # lines
        ((8, 4, 8, 8), (8, 4, 64), False),  # channels
        ((8, 3, 32, 32), (8, 32, 96), False),
        ((8, 64, 8, 8), (8, 16, 256), False),  # groups of features
        ((8, 3, 32, 32), (8, 1, 3072), False),
    ],
)
def test_a_view_that_has_the_shape_of_patches(before: Any, after: Any, patches: bool) -> None:
    assert axes.as_patches(before, after) is patches


@pytest.mark.parametrize(
    ("before", "after", "exchanged"),
    [
        ((6, 32, 4, 4), (6, 16, 32), True),
        ((6, 16, 32), (6, 32, 4, 4), True),
        ((4, 21, 16, 16), (1024, 21), True),
        ((6, 16, 4, 4), (6, 16, 16), False),  # a row for each channel, as many as places
        ((6, 32, 4, 4), (6, 32, 16), False),
        ((6, 16, 4, 8), (6, 16, 32), False),  # the heads of each token are joined
        ((4, 8, 16, 16), (512, 8), False),
        ((4, 4, 16, 16), (1024, 4), False),  # lines of the map in pieces of four
        ((6, 32, 1, 1), (6, 32), False),
        ((6, 8, 8, 8), (6, 64, 8), False),  # maybe [N, H, W, C]
        ((6, 256, 16), (6, 16, 16, 16), False),
        ((6, 2, 120, 4), (6, 2, 4, 12, 10), True),
        ((2, 16, 4, 6, 6), (8, 16, 36), True),
        ((8, 16, 6, 6), (2, 16, 4, 6, 6), True),
        ((2, 4, 16, 6, 6), (8, 16, 6, 6), False),  # frames first
        ((2, 4, 4, 6, 6), (8, 4, 36), False),  # maybe frames first
        ((2, 16, 4, 6, 6), (2, 64, 6, 6), False),
        ((6, 2, 120, 4), (6, 2, 12, 10, 4), False),
        ((6, 64, 8, 8), (384, 64), False),  # a softmax over the places of each channel
    ],
)
def test_a_view_that_has_the_shape_of_a_transposed_map(
    before: Any, after: Any, exchanged: bool
) -> None:
    assert axes.exchanges(before, after) is exchanged

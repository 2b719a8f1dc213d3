"""Programs that begin with other weights than they loaded."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402, TID253
from trainings import adamw, alarms, guarded, model, train  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]


def load(names: Callable[[str], str], *, again: bool = False, into: Any = None) -> None:
    module = model()
    state = copy.deepcopy(module.state_dict())
    module.load_state_dict({names(k): v for k, v in state.items()}, strict=False)
    if again:
        module.load_state_dict(state)
    train(module, adamw(module), 3)


@pytest.mark.parametrize(
    ("run", "found"),
    [
        (lambda: load(lambda name: f"module.{name}"), True),
        (lambda: load(lambda name: f"_orig_mod.{name}"), True),
        (lambda: load(lambda name: f"module.{name}", again=True), False),
        (lambda: load(lambda name: name if name.startswith("0.") else f"old.{name}"), False),
        (lambda: load(lambda name: name), False),
    ],
)
def test_a_state_dict_of_which_nothing_fits(
    run: Callable[[], None], found: bool, tmp_path: Path
) -> None:
    with guarded(tmp_path):
        run()
    assert (("GRD027", "warn") in alarms(tmp_path)) is found


@pytest.mark.parametrize("order", [("encoder", "head"), ("head", "encoder")])
def test_a_state_dict_that_each_part_is_offered(order: tuple[str, str], tmp_path: Path) -> None:
    parts = {"encoder": nn.Linear(4, 4), "head": nn.Sequential(nn.Linear(4, 2))}
    state = {"weight": torch.randn(4, 4), "bias": torch.randn(4)}
    optimizer = torch.optim.Adam([p for part in parts.values() for p in part.parameters()])
    with guarded(tmp_path):
        for name in order:
            parts[name].load_state_dict(state, strict=False)
        for _ in range(3):
            parts["head"](parts["encoder"](torch.randn(8, 4))).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    assert not alarms(tmp_path)

"""The batch of the first alarm comes back, with the random state before its step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from trainings import guarded  # noqa: E402

from doctor.guard import replay  # noqa: E402

pytestmark = pytest.mark.slow


def rows() -> list[Any]:
    generator = torch.Generator().manual_seed(3)
    samples = list(torch.randn(24, 4, generator=generator))
    samples[7][2] = torch.nan
    return samples


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A shuffled training with dropout whose data has one NaN; what it saw at that step."""
    out = tmp_path_factory.mktemp("recorded")
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    bad: dict[str, Any] = {"out": str(out)}
    with guarded(out):
        for x in torch.utils.data.DataLoader(rows(), batch_size=4, shuffle=True):
            state = torch.get_rng_state()
            model(x).pow(2).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            if x.isnan().any() and "x" not in bad:
                bad.update(x=x.clone(), state=state)
    return bad


def test_the_batch_and_the_random_state_are_those_of_the_failure(recorded: dict[str, Any]) -> None:
    torch.manual_seed(99)
    x = replay.batch(recorded["out"], rows())
    assert torch.equal(x.isnan(), recorded["x"].isnan())
    assert torch.equal(x.nan_to_num(), recorded["x"].nan_to_num())
    assert torch.equal(torch.get_rng_state(), recorded["state"])


def test_other_data_is_named(recorded: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    replay.batch(recorded["out"], [row + 1 for row in rows()])
    assert "differs from the recorded one in: batch" in capsys.readouterr().err


def test_without_an_alarm_there_is_nothing_to_replay(tmp_path: Path) -> None:
    with pytest.raises(LookupError, match="no batch of an alarm"):
        replay.batch(str(tmp_path), rows())

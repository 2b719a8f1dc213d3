"""Numbers that arrive later than they are asked for, as those of a GPU do."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from trainings import adamw, alarms, guarded, model, records, train  # noqa: E402

from doctor.guard import values  # noqa: E402

pytestmark = pytest.mark.slow


@contextmanager
def late(out: Path, **settings: Any) -> Iterator[Any]:
    with guarded(out, **settings) as guard:
        guard._session.watch.values.late = True
        yield guard._session.watch


def spoiled(*steps: int, value: float = math.nan) -> Any:
    return lambda step, loss: loss * value if step in steps else loss


def state(out: Path) -> dict[str, Any]:
    return records(out, "state")[-1]


@pytest.mark.parametrize("clip", [False, True])
def test_a_healthy_training_is_counted_as_with_numbers_at_once(clip: bool, tmp_path: Path) -> None:
    counts = []
    for name, manager in (("now", guarded), ("late", late)):
        module = model()
        with manager(tmp_path / name):
            losses = train(module, adamw(module), 120, clip=clip)
        assert alarms(tmp_path / name) == {}
        counts.append({k: v for k, v in state(tmp_path / name).items() if "seconds" not in k})
        steps = records(tmp_path / name, "step")
        assert [step["loss"] for step in steps] == pytest.approx(losses, rel=1e-5)
    assert counts[0] == counts[1]


class InLumps:
    """An event of a GPU that is behind in steps 110 to 149: five of them are done at a time."""

    step = 0

    def __init__(self) -> None:
        step = InLumps.step
        self._due = (step // 5 + 1) * 5 if 110 <= step < 150 else step

    def query(self) -> bool:
        return InLumps.step >= self._due


def test_losses_that_arrive_together_are_no_spike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def note(step: int, loss: Any) -> Any:
        InLumps.step = step
        return loss

    monkeypatch.setattr(values, "Later", InLumps)
    module = model()
    with late(tmp_path, all=True):
        losses = train(module, adamw(module), 150, change=note)
    assert alarms(tmp_path) == {}
    steps = [step["loss"] for step in records(tmp_path, "step")]
    assert steps == pytest.approx(losses, rel=1e-5)


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("spoil_step", [1, 5, 40, 77])
def test_an_alarm_names_the_step_of_the_loss(clip: bool, spoil_step: int, tmp_path: Path) -> None:
    module = model()
    optimizer = adamw(module)
    with late(tmp_path):
        train(module, optimizer, 80, clip=clip, change=spoiled(spoil_step))
    codes = alarms(tmp_path)
    assert codes["GRD001", "fail"] == codes["GRD002", "fail"] == spoil_step


def test_weights_that_are_gone_before_they_were_read_are_a_warning(tmp_path: Path) -> None:
    module = model()
    with late(tmp_path):
        train(module, adamw(module), 80, change=spoiled(80))
    assert alarms(tmp_path) == {("GRD001", "fail"): 80, ("GRD002", "warn"): 80}


def test_a_batch_without_labels_is_no_loss_that_is_hidden(tmp_path: Path) -> None:
    module = model()

    def masked(step: int, loss: Any) -> Any:
        return torch.nan_to_num(loss * 0.0) + math.nan if step == 9 else loss

    with late(tmp_path):
        train(module, adamw(module), 30, change=masked)
    assert alarms(tmp_path) == {("GRD009", "warn"): 9}


def test_the_last_step_is_judged_when_the_guard_ends(tmp_path: Path) -> None:
    module = model()
    with late(tmp_path):
        train(module, adamw(module), 60, change=spoiled(60))
    assert alarms(tmp_path)["GRD001", "fail"] == 60


class Never:
    """The event of a device that hangs."""

    def query(self) -> bool:
        return False


class Broken:
    """The event of a device that failed."""

    def query(self) -> bool:
        raise RuntimeError("CUDA error: device-side assert triggered")


@pytest.mark.parametrize("event", [Never, Broken])
def test_what_never_arrives_is_neither_waited_for_nor_judged(
    event: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "Later", event)
    monkeypatch.setattr(values, "FINISH_SECONDS", 0.01)
    module, plain = model(), model()
    with late(tmp_path) as watch:
        losses = train(module, adamw(module), 300, change=spoiled(200))
    assert losses[:199] == train(plain, adamw(plain), 300, change=spoiled(200))[:199]
    assert alarms(tmp_path) == {}
    assert state(tmp_path)["losses"] == 0
    assert watch.values.dropped
    assert watch.values.lost is (event is Broken)


def test_a_second_optimizer_gets_the_same_losses(tmp_path: Path) -> None:
    first, second = model(), model()
    one, two = adamw(first), adamw(second)
    with late(tmp_path):
        for step in range(1, 31):
            x = torch.randint(0, 16, (2, 4))
            loss = (first(x) - second(x)).pow(2).mean() * (math.nan if step == 20 else 1)
            loss.backward()
            one.step()
            two.step()
            one.zero_grad()
            two.zero_grad()
    assert alarms(tmp_path)["GRD001", "fail"] == 20
    assert state(tmp_path)["losses"] == 30

"""Steps on which nothing is unusual: logged, and, where steps are short, not all read."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from trainings import adamw, alarms, batches, guarded, loss_of, model, records, train  # noqa: E402

from doctor.guard import thresholds as limit  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]


@contextmanager
def timed(out: Path, step_seconds: float, **settings: Any) -> Iterator[Any]:
    """A guard whose clock says that each step takes so long."""
    with guarded(out, **settings) as guard:
        steady, tally = guard._session.watch.steady, guard._session.watch.judging.tally
        steady.clock = itertools.count(tally.began, step_seconds).__next__
        yield guard._session.watch


def state(out: Path) -> dict[str, Any]:
    (*_, last) = records(out, "state")
    return last


def run(out: Path, steps: int, step_seconds: float = 0.008, **options: Any) -> list[float]:
    module = model()
    with timed(out, step_seconds):
        return train(module, adamw(module), steps, **options)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred steps without anything unusual instead of five."""
    monkeypatch.setattr(limit, "READ_ALL", limit.READ_ALL // 5)


def test_steps_of_8_ms_are_not_all_read_after_hundreds_without_anything_unusual(
    tmp_path: Path,
) -> None:
    losses = run(tmp_path / "guard", 800, clip=True)
    module = model()
    assert losses == train(module, adamw(module), 800, clip=True)
    assert alarms(tmp_path / "guard") == {}
    counts = state(tmp_path / "guard")
    assert counts["steps"] == counts["effective"] == counts["backwards"] == 800
    assert limit.READ_ALL < counts["unread_from"] < limit.READ_ALL + 100
    every = counts["read_every"]
    assert every in limit.READ_EVERY[1:]
    left = 800 - counts["unread_from"]
    assert 0.6 * left * (1 - 1 / every) < counts["unread"] <= left * (1 - 1 / every) + every
    assert counts["losses"] == counts["norms"] == 800 - counts["unread"]
    assert counts["rates"] == 800


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize(
    ("seconds", "clip", "every"),
    [
        (0.030, True, 1),
        (0.003, True, limit.READ_EVERY[-1]),
        (0.050, False, 1),
        (0.008, False, limit.READ_EVERY[-1]),
    ],
)
def test_how_many_steps_are_read_follows_from_their_time(
    seconds: float, clip: bool, every: int, tmp_path: Path
) -> None:
    run(tmp_path, 160, seconds, clip=clip)
    counts = state(tmp_path)
    assert counts["read_every"] == every
    assert (counts["unread"] > 0) == (every > 1)


@pytest.mark.usefixtures("soon")
def test_reading_the_numbers_of_a_gpu_takes_a_share_of_longer_steps(tmp_path: Path) -> None:
    every_read = {}
    for seconds in (0.03, 0.08):
        out = tmp_path / str(seconds)
        module = model()
        with timed(out, seconds) as watch:
            watch.values.late = True  # the numbers arrive as those of a GPU do
            train(module, adamw(module), 160)
        every_read[seconds] = state(out)["read_every"] == 1
    assert every_read == {0.03: False, 0.08: True}


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("seconds", [0.001, 0.2])  # the counts are written amid a log, too
def test_with_all_codes_every_step_is_read(seconds: float, tmp_path: Path) -> None:
    module = model()
    with timed(tmp_path, seconds, all=True):
        train(module, adamw(module), 160)
    counts = state(tmp_path)
    assert (counts["unread"], counts["steps"]) == (0, 160)


@pytest.mark.usefixtures("soon")
def test_two_optimizers_are_read_at_every_step(tmp_path: Path) -> None:
    module = model()
    first, second = (torch.optim.AdamW(m.parameters(), lr=1e-3) for m in (module[:3], module[3:]))
    with timed(tmp_path, 0.001):
        for x, y in batches(160):
            loss_of(module, x, y).backward()
            for optimizer in (first, second):
                optimizer.step()
                optimizer.zero_grad()
    counts = state(tmp_path)
    assert (counts["steps"], counts["unread"], counts["losses"]) == (320, 0, 160)
    assert alarms(tmp_path) == {}


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("bad", [301, 302, 304])
def test_a_loss_that_is_not_finite_is_named_with_the_steps_before_it_that_were_not_read(
    bad: int, tmp_path: Path
) -> None:
    def change(step: int, loss: Any) -> Any:
        return loss * math.nan if step == bad else loss

    run(tmp_path, 320, change=change)
    step = alarms(tmp_path)["GRD001", "fail"]
    first = next(record for record in records(tmp_path, "alarm") if record["code"] == "GRD001")
    assert step - limit.READ_EVERY[-1] < bad <= step
    unread = step - bad
    if unread:
        (words,) = [part for part in first["text"].split("; ") if "not read" in part]
        assert int(words.split()[1]) >= unread
    assert records(tmp_path, "origin")[0]["origin"] == ("weights" if unread else "forward")
    counts = state(tmp_path)
    assert counts["bad_losses"] == 320 - step + 1  # from then on every step is read
    assert counts["steps"] == 320


@pytest.mark.usefixtures("soon")
def test_a_learning_rate_of_0_is_named_with_its_step_though_steps_are_not_read(
    tmp_path: Path,
) -> None:
    module = model()
    optimizer = adamw(module)

    def stop(step: int) -> None:
        if step == 250:
            optimizer.param_groups[0]["lr"] = 0.0

    with timed(tmp_path, 0.002) as watch:
        train(module, optimizer, 360, before_step=stop)
        assert watch.steady.unread
    assert alarms(tmp_path)["GRD006", "fail"] == 349  # the hundredth
    assert state(tmp_path)["effective"] == 249


@pytest.mark.usefixtures("soon")
def test_gradients_that_are_no_longer_cleared_are_named_though_steps_are_not_read(
    tmp_path: Path,
) -> None:
    module = model()
    optimizer = adamw(module)
    with timed(tmp_path, 0.002):
        train(module, optimizer, 240)
        train(module, optimizer, 20, clear=False)
    assert 245 <= alarms(tmp_path)["GRD012", "warn"] <= 245 + 1 + limit.READ_EVERY[-1]


@pytest.mark.usefixtures("soon")
def test_gradients_set_to_zero_instead_of_none_are_cleared(tmp_path: Path) -> None:
    module = model()
    optimizer = adamw(module)
    clear = optimizer.zero_grad
    optimizer.zero_grad = lambda: clear(set_to_none=False)
    with timed(tmp_path, 0.002):
        train(module, optimizer, 200)
        assert alarms(tmp_path) == {}
        train(module, optimizer, 20, clear=False)
    assert alarms(tmp_path)["GRD012", "warn"] == 206
    assert state(tmp_path)["unread"] == 0


@pytest.mark.usefixtures("soon")
def test_a_loss_scaler_that_begins_late_ends_what_is_logged(tmp_path: Path) -> None:
    module = model()
    optimizer = adamw(module)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    with timed(tmp_path, 0.002):
        train(module, optimizer, 160)
        for step, (x, y) in enumerate(batches(20)):
            scaler.scale(loss_of(module, x, y) * (math.inf if step == 10 else 1.0)).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    counts = state(tmp_path)
    assert (counts["scaled"], counts["skipped"], counts["steps"]) == (True, 1, 180)
    losses = [r["loss"] for r in records(tmp_path, "step") if r["s"] > 160]
    assert all(float(loss) < 100 or loss == "inf" for loss in losses)  # not scaled


def test_a_step_that_raises_is_not_counted(tmp_path: Path) -> None:
    module = model()
    optimizer = adamw(module)
    with timed(tmp_path, 0.002):
        train(module, optimizer, 30)
        betas = optimizer.param_groups[0]["betas"]
        optimizer.param_groups[0]["betas"] = None
        with pytest.raises(TypeError):
            train(module, optimizer, 1)
        optimizer.param_groups[0]["betas"] = betas
        optimizer.zero_grad()
        train(module, optimizer, 30)
    counts = state(tmp_path)
    assert counts["steps"] == counts["effective"] == 60
    assert [r["s"] for r in records(tmp_path, "step")] == list(range(1, 61))
    assert alarms(tmp_path) == {}


def test_an_optimizer_that_takes_the_place_of_a_dead_one_is_watched_from_its_start(
    tmp_path: Path,
) -> None:
    with timed(tmp_path, 0.002) as watch:
        for _ in range(4):
            module = model()
            optimizer = adamw(module)
            train(module, optimizer, 30)
            assert len(watch.steady.armed) == 1
            del optimizer, module
    assert state(tmp_path)["steps"] == 120
    assert len([r for r in records(tmp_path, "step") if r["s"] == 1]) == 4

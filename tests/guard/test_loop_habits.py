"""Habits of a loop that only several steps show: which passes a step follows, hooks, waiting."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402, TID253
from torch.utils.data import DataLoader, Dataset  # noqa: E402, TID253
from trainings import adamw, alarms, batches, guarded, loss_of, model, records  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]


def accumulated(steps_at: Callable[[int], bool], passes: int = 60, divisor: float = 1.0) -> None:
    module = model()
    optimizer = adamw(module)
    for i, (x, y) in enumerate(batches(passes)):
        (loss_of(module, x, y) / divisor).backward()
        if steps_at(i + 1):
            optimizer.step()
            optimizer.zero_grad()


def penalized() -> None:
    """A penalty every eighth step, with a backward pass of its own."""
    module = model()
    optimizer = adamw(module)
    for i, (x, y) in enumerate(batches(60)):
        loss_of(module, x, y).backward()
        if i % 8 == 0:
            (0.01 * sum(p.square().sum() for p in module.parameters())).backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize(
    ("run", "found"),
    [
        (lambda: accumulated(lambda n: n % 8 != 0, divisor=8.0), True),
        (lambda: accumulated(lambda n: n % 3 != 0), True),
        (lambda: accumulated(lambda n: n % 8 == 0, divisor=8.0), False),
        (lambda: accumulated(lambda n: n % 2 == 0, divisor=2.0), False),
        (lambda: accumulated(lambda n: True, divisor=8.0), False),
        (lambda: accumulated(lambda n: n % 7 != 0 and n % 11 != 0), False),
        (penalized, False),
    ],
)
def test_all_but_each_nth_pass_steps(run: Callable[[], None], found: bool, tmp_path: Path) -> None:
    with guarded(tmp_path):
        run()
    assert (("GRD011", "warn") in alarms(tmp_path)) is found
    text = " ".join(each["text"] for each in records(tmp_path, "alarm"))
    assert ("divided by 8" in text) is ("of 8 backward passes" in text)


def hooked(anew: bool, removed: bool, steps: int = 40) -> None:
    module, kept = model(), []
    optimizer = adamw(module)

    def save(name: str) -> Callable[..., None]:
        return lambda inner, inputs, output: kept.append((name, output.shape))

    handle = module[2].register_forward_hook(save("first"))
    for x, y in batches(steps):
        if anew:
            handle = module[2].register_forward_hook(save("again"))
        loss_of(module, x, y).backward()
        optimizer.step()
        optimizer.zero_grad()
        if removed:
            handle.remove()


@pytest.mark.parametrize(
    ("anew", "removed", "found"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_hooks_that_each_step_adds(anew: bool, removed: bool, found: bool, tmp_path: Path) -> None:
    original = nn.Module.register_forward_hook
    with guarded(tmp_path):
        hooked(anew, removed)
    assert (("GRD019", "warn") in alarms(tmp_path)) is found
    assert nn.Module.register_forward_hook is original


class Slow(Dataset[Any]):
    """Sixteen samples a batch; each reads the whole file again, or sleeps."""

    def __init__(self, path: Path, again: bool) -> None:
        self.path, self.again = path, again
        path.write_text("1 2 3\n" * 8)

    def __len__(self) -> int:
        return 16 * 40

    def __getitem__(self, i: int) -> Any:
        if self.again:
            self.path.open().close()
        time.sleep(0.001)
        return torch.full((4,), i % 16), torch.full((4,), (3 * i + 1) % 16)


@pytest.mark.parametrize("again", [True, False])
def test_waiting_for_samples_of_one_file(again: bool, tmp_path: Path) -> None:
    module = model()
    optimizer = adamw(module)
    opened = open
    with guarded(tmp_path / "out"):
        for x, y in DataLoader(Slow(tmp_path / "rows.txt", again), batch_size=16, shuffle=True):
            loss_of(module, x, y).backward()
            optimizer.step()
            optimizer.zero_grad()
    found = [each for each in records(tmp_path / "out", "alarm") if each["code"] == "GRD017"]
    assert [each["status"] for each in found] == ["warn" if again else "note"]
    assert ("rows.txt was opened 16 times" in found[0]["text"]) is again
    assert open is opened


def test_evaluations_and_short_waits_are_no_waiting(tmp_path: Path) -> None:
    module = model()
    optimizer = adamw(module)
    rows = [(torch.full((4,), i % 16), torch.full((4,), i % 16)) for i in range(16 * 40)]
    with guarded(tmp_path):
        for x, y in DataLoader(rows, batch_size=16):
            loss_of(module, x, y).backward()
            optimizer.step()
            optimizer.zero_grad()
    assert not any(code == "GRD017" for code, _ in alarms(tmp_path))

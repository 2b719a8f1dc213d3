"""What the hooks of a rehearsal record of loaders and collectives, on torch's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

ROWS = torch.arange(10.0).reshape(10, 1)


@pytest.fixture
def watched(tmp_path: Path) -> Any:
    """An observer whose loaders are followed, as one backward pass for each batch says."""
    from doctor.guard.patches import Patches
    from doctor.guard.rehearsal.loaders import Loaders
    from doctor.guard.rehearsal.observer import Observer
    from doctor.guard.rehearsal.settings import Settings

    observer = Observer(torch, Settings(str(tmp_path), str(tmp_path), ()))
    observer.passes = 0
    observer.loaders = Loaders(torch, observer, lambda: observer.passes)
    patches = Patches()
    observer.loaders.install(patches)
    yield observer
    patches.remove()
    observer.records.close()


def recorded(directory: Path) -> list[dict[str, Any]]:
    lines = [line for path in directory.glob("observed*") for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def train(observer: Any, loader: Any, *, skip: int = 0, ahead: bool = False) -> None:
    """A backward pass and a step for each batch; `ahead` fetches the next one before."""
    batches = list(loader) if ahead else loader
    for number, _ in enumerate(batches):
        if number >= skip:
            observer.passes += 1
            observer.step += 1
            observer.loaders.step(observer.step)


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_samples_are_those_of_the_steps(watched: Any, tmp_path: Path, workers: int) -> None:
    loader = torch.utils.data.DataLoader(ROWS, batch_size=4, num_workers=workers)
    with torch.no_grad():
        list(loader)  # an evaluation
    train(watched, loader, skip=1)
    found = recorded(tmp_path)
    assert [each["samples"] for each in found if each["kind"] == "taken"] == [[4, 5, 6, 7], [8, 9]]
    assert [each["batches"] for each in found if each["kind"] == "loader"] == [3]
    assert [each["s"] for each in found if each["kind"] == "epoch"] == [2]


def test_a_stream_has_no_length_and_no_samples(watched: Any, tmp_path: Path) -> None:
    class Stream(torch.utils.data.IterableDataset):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Any:
            return iter(range(6))

    train(watched, torch.utils.data.DataLoader(Stream(), batch_size=2))
    found = recorded(tmp_path)
    assert [each["batches"] for each in found if each["kind"] == "loader"] == [None]
    assert not [each for each in found if each["kind"] == "taken"]


def test_an_error_of_a_signal_handler_is_the_programs_own(tmp_path: Path) -> None:
    """torch raises from its handler where a worker of a loader died: the hooks pass it on."""
    import os
    import signal

    from doctor.guard.rehearsal.observer import Observer
    from doctor.guard.rehearsal.settings import Settings

    def raises(number: int, frame: Any) -> None:
        raise RuntimeError("a worker died")

    observer = Observer(torch, Settings(str(tmp_path), str(tmp_path), ()))
    before = signal.signal(signal.SIGUSR2, raises)
    try:
        with pytest.raises(RuntimeError, match="a worker died"):
            observer.safely(lambda: os.kill(os.getpid(), signal.SIGUSR2))
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert observer.alive


def test_the_last_collective_is_kept(tmp_path: Path) -> None:
    from doctor.guard.rehearsal.collectives import Collectives

    def inner() -> None:
        raise ValueError("no process group")

    calls = Collectives(torch, str(tmp_path))
    assert calls._wrapped("barrier", lambda: 1)() == 1
    with pytest.raises(ValueError, match="no process group"):
        calls._wrapped("all_reduce", inner)()
    (path,) = tmp_path.iterdir()
    last = json.loads(path.read_text())
    assert (last["name"], last["number"], last["returned"]) == ("all_reduce", 2, False)
    assert "test_rehearsal_loaders.py:" in last["place"]

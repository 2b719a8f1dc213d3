"""What the hooks record of errors: in workers, handlers, threads and saves."""

from __future__ import annotations

import functools
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from doctor.collect.rehearsal import agreement, begun_anew, continuing, observation
from doctor.facts.rehearsal_resume import Resumed
from doctor.facts.rehearsal_runs import OnDisk
from doctor.guard.last_error import text_of
from doctor.guard.switch import handler_of

WORKER = """Caught IndexError in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py", line 3, in _loop
    data = fetcher.fetch(index)
  File "/a/train.py", line 10, in __getitem__
    return self.series[i + self.width]
IndexError: index 200 is out of bounds for dimension 0 with size 200
"""


def test_an_error_of_a_worker_keeps_its_first_and_its_last_line() -> None:
    assert text_of(IndexError(WORKER)) == (
        "Caught IndexError in DataLoader worker process 0.\n"
        "IndexError: index 200 is out of bounds for dimension 0 with size 200"
    )
    for message in ("no table", "a\nb\nc", "Original Traceback (most recent call last):"):
        assert text_of(ValueError(message)) == message


class Loop:
    def stop(self) -> None:
        raise AssertionError

    def fails(self, number: int, frame: Any) -> None:
        raise NameError("step")

    def works(self, path: int, number: int, frame: Any) -> None:
        raise NameError("step")


@pytest.mark.parametrize(
    ("name", "given"), [("stop", ()), ("fails", ()), ("works", (1,)), ("fails", (1,))]
)
def test_the_handler_that_an_error_came_from(name: str, given: Any) -> None:
    handler = getattr(Loop(), name)
    called = functools.partial(handler, *given) if given else handler
    before = signal.signal(signal.SIGUSR2, called)
    try:
        with pytest.raises((TypeError, NameError)) as raised:
            os.kill(os.getpid(), signal.SIGUSR2)
        assert handler_of(raised.value) == handler
        assert handler_of(TypeError("other() takes 1 positional argument")) is None
        assert handler_of(NameError("step")) is None
    finally:
        signal.signal(signal.SIGUSR2, before)


@pytest.mark.slow
def test_the_entry_that_cannot_be_pickled_is_named() -> None:
    import threading

    import torch

    from doctor.guard.rehearsal.failures import unpicklable

    state = {"model": {"w": torch.zeros(2)}, "extra": {"step": 3, "lock": threading.Lock()}}
    assert unpicklable(torch, state) == "['extra']['lock'], of class lock"
    assert unpicklable(torch, {"model": {"w": torch.zeros(2)}, "step": 3}) == ""
    assert unpicklable(torch, torch.zeros(2)) == ""


@pytest.mark.slow
def test_models_keep_their_order_whatever_the_collector_does() -> None:
    import gc

    import torch

    from doctor.guard.rehearsal.state import in_memory

    first = torch.nn.Linear(2, 2)
    gc.collect()
    second = torch.nn.Linear(3, 3)
    found = [each for each in in_memory(torch)["module"] if each is first or each is second]
    assert found == [first, second]


@pytest.mark.parametrize(
    ("paths", "opened", "named"),
    [
        (("c-4.pt", "c-8.pt", "c-12.pt"), "c-4.pt", True),
        (("d-4/m.pt", "d-8/m.pt", "d-12/m.pt"), "d-4/m.pt", True),
        (("c-4.pt", "c-8.pt", "c-12.pt"), "c-8.pt", False),
        (("c-4.pt", "c-8.pt"), "c-4.pt", False),
        (("val_loss-4.pt", "val_loss-8.pt", "val_loss-12.pt"), "val_loss-4.pt", False),
        (("c-4.pt", "c-8.pt", "c-12.pt"), "", False),
    ],
)
def test_the_oldest_of_several_checkpoints(paths: Any, opened: str, named: bool) -> None:
    disks = [OnDisk(path=path, bytes=1) for path in paths]
    found = Resumed(saved_step=4, newest_step=12, opened=opened)
    expected = (paths[0], paths[-1]) if named else ("", "")
    assert continuing.oldest_taken(disks, found) == expected


def ranks(tmp_path: Path, **of_rank: Any) -> list[observation.Observed]:
    for rank in (0, 1):
        process = {"kind": "process", "rank": rank, "world": 2, "pid": 7, "moment": 1.0}
        tensors = {"w": ["float32", [1], of_rank["gradients"][rank]]}
        step = {"kind": "step", "s": 1, "moment": 2.0, "t": None, "rates": [of_rank["rates"][rank]]}
        held = (process, {"kind": "gradients", "tensors": tensors}, step)
        lines = [json.dumps(each) for each in held]
        (tmp_path / f"observed{rank}-7.jsonl").write_text("\n".join(lines) + "\n")
    return observation.read_processes(tmp_path)


@pytest.mark.parametrize(
    ("gradients", "rates", "unaveraged", "apart"),
    [
        ((5, 5), (0.1, 0.1), [], ()),
        ((5, 6), (0.1, 0.1), ["w"], ()),
        ((5, 5), (0.1, 0.2), [], (0.1, 0.2)),
    ],
)
def test_what_differs_between_ranks_at_the_first_step(
    gradients: Any, rates: Any, unaveraged: Any, apart: Any, tmp_path: Path
) -> None:
    found = ranks(tmp_path, gradients=gradients, rates=rates)
    assert agreement._unaveraged(found, ["w"]) == unaveraged
    assert agreement._rates(found, 4) == (int(bool(apart)), apart)
    assert agreement._rates(found, None) == (0, ())


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("ModelEma.num_updates", True),
        ("EMA.updates", True),
        ("AverageMeter.count", False),
        ("RunningAverage.n", False),
        ("Trainer.updates", False),
    ],
)
def test_counters_of_averages(name: str, counts: bool) -> None:
    said = bool(begun_anew.STATISTIC.search(name)) and not begun_anew._reports(name)
    assert said is counts


class _Own(TypeError):
    def __str__(self) -> str:
        raise ValueError


def test_an_error_without_a_text_came_from_no_handler() -> None:
    before = signal.signal(signal.SIGUSR2, Loop().fails)
    try:
        assert handler_of(_Own()) is None
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_an_error_of_a_worker_keeps_all_lines_of_its_message() -> None:
    head, trace = WORKER.split("IndexError: index")
    message = f"{head}ValueError: cannot decode the sample\nfile=img40.png\nshape=()\n"
    assert text_of(ValueError(message)).endswith("sample\nfile=img40.png\nshape=()")
    assert trace
    assert len(text_of(ValueError("x" * 10**6))) < 10**6


class _Records:
    def __init__(self) -> None:
        self.found: list[Any] = []

    def write(self, kind: str, **fields: Any) -> None:
        self.found.append(fields["reached"])


def test_a_signal_is_seen_that_comes_to_this_process_and_late() -> None:
    from doctor.guard.rehearsal.handlers import Wakeup

    records = _Records()
    wakeup = Wakeup(records)
    before = signal.signal(signal.SIGUSR2, lambda number, frame: None)
    try:
        wakeup.look(1)
        wakeup.listen()
        wakeup.end(2)
        os.kill(os.getpid(), signal.SIGUSR2)
        wakeup.look(3)
        wakeup.look(4)
        assert records.found == [False, True]
        other = Wakeup(records)  # another one listens
        other.listen()
        other.end(5)
        assert records.found[2:] == [None]
    finally:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGUSR2, before)


def test_graphs_that_hang_together_and_long_ones() -> None:
    import torch

    from doctor.guard.rehearsal.graphs import Graphs

    graphs, weight = Graphs(torch), torch.nn.Parameter(torch.ones(2))
    total, chained, long, hooked = torch.zeros(()), [], [], []
    layer = torch.nn.Linear(2, 2)
    for _ in range(3):
        total = total + (weight * 2).sum()
        layer.register_forward_hook(lambda *args: None)
        found = graphs.look()
        chained.append(found["nodes"])
        hooked.append(found["hooks"])
    del total
    for length in (5, 50, 500):
        held = weight
        for _ in range(length):
            held = held * 1.1
        long.append(graphs.look()["nodes"])
        del held
    assert chained[0] == 0 or chained[0] < chained[1] < chained[2]
    assert chained[1] < chained[2]
    assert len(set(long[1:])) == 1
    assert hooked[0] < hooked[1] < hooked[2]

"""One rank of a sum over all GPUs of the job, checked by value.

The ranks of one machine meet in a file (`store`), so that no port is needed; those of several nodes
in the store of the fleet (`host`, `port`, `prefix`). The group is not destroyed, because
that can hang too: the process ends right after.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import threading
import time
from typing import Any, Dict, Iterator

import torch

from ... import wire

ELEMENTS = {"cuda": 4 * 2**20, "cpu": 2**14}
PERIOD = 251
"""The period of the values: a prime, so that a misplaced chunk differs."""
TIMED = 5
EVERY = 1.0
"""Seconds between two notes about progress, at least."""


def contribution(rank: int, device: torch.device) -> torch.Tensor:
    """What a rank contributes: small whole numbers, whose sum is exact in fp32."""
    positions = torch.arange(ELEMENTS[device.type], device=device) % PERIOD + 1
    return (positions * (rank + 1)).float()


def run(request: Dict[str, Any]) -> Dict[str, Any]:
    """Wrong elements of the sum and its bus bandwidth. Raises what torch raises."""
    import torch.distributed as dist

    device, ranks = torch.device(request["device"]), request["ranks"]
    if device.type == "cuda":
        torch.cuda.set_device(device)
    with wire.stage("init_process_group"):
        dist.init_process_group(
            request["backend"],
            rank=request["rank"],
            world_size=ranks,
            timeout=datetime.timedelta(seconds=request["within"]),
            **meeting_place(dist, request),
        )
    with wire.stage("start of %s" % request["backend"]), progress_notes(request):
        values = contribution(request["rank"], device)
        dist.all_reduce(values)  # loads the library's kernels; the sum itself is asynchronous
    with wire.stage("all_reduce"):
        wrong = int((values != contribution(0, device) * (ranks * (ranks + 1) // 2)).sum())
    with wire.stage("timed all_reduce"):
        seconds = seconds_of_one_all_reduce(dist, values)
    sent = 2 * (ranks - 1) / ranks * values.numel() * values.element_size()
    return {"wrong": wrong, "rate": sent / seconds}


def meeting_place(dist: Any, request: Dict[str, Any]) -> Dict[str, Any]:
    """Where the ranks meet: in a file, or under a prefix of a store that several nodes reach."""
    if "host" not in request:
        return {"init_method": "file://" + request["store"]}
    seconds = datetime.timedelta(seconds=request["within"])
    store = dist.TCPStore(
        request["host"], request["port"], None, False, timeout=seconds, wait_for_workers=False
    )
    return {"store": dist.PrefixStore(request["prefix"], store)}


@contextlib.contextmanager
def progress_notes(request: Dict[str, Any]) -> Iterator[None]:
    """A note a second, if some rank spends a quarter of it on the processor here.

    NCCL loads its kernels on the processor, for up to 52 s on eight B200 (NVIDIA/nccl#1646). A file
    beside the store tells the ranks that wait for another one.
    """
    path = request["store"] + ".progress"
    clock = time.pthread_getcpuclockid(threading.get_ident())
    ended = threading.Event()

    def report() -> None:
        noted, size = time.clock_gettime(clock), 0
        deadline = time.monotonic() + request["notes"]
        while not ended.wait(EVERY) and time.monotonic() < deadline:
            spent = time.clock_gettime(clock)
            with open(path, "ab") as progress:
                if spent - noted >= EVERY / 4:
                    noted = spent
                    progress.write(b".")
            if os.path.getsize(path) > size:
                size = os.path.getsize(path)
                wire.send(note={"progress": size})

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    try:
        yield
    finally:
        ended.set()
        reporter.join()


def seconds_of_one_all_reduce(dist: Any, values: torch.Tensor) -> float:
    """Mean seconds of one all-reduce; overwrites the values."""
    cuda = values.device.type == "cuda"
    values.zero_()
    if cuda:
        torch.cuda.synchronize(values.device)
    started = time.perf_counter()
    for _ in range(TIMED):
        dist.all_reduce(values)
    if cuda:
        torch.cuda.synchronize(values.device)
    return (time.perf_counter() - started) / TIMED

"""Dumps that torch itself writes, of ranks of which one stops."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import preloaded
import pytest

from doctor.facts.flight_recorder import FlightRecorder
from doctor.log.flight_recorder import is_dump, read_dumps

JOB = """
import json, os, signal, threading, time

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace, _dump_fr_trace_json

WORLD, STOPPED, CALLS = 4, 2, 3
readable, writable = os.pipe()


def write_dump(rank):
    with open(f"_dump_{rank}", "wb") as file:
        file.write(_dump_fr_trace())


def when_waiting(rank):
    while len(json.loads(_dump_fr_trace_json()).get("entries", ())) <= CALLS:
        time.sleep(0.01)
    write_dump(rank)
    os.close(writable)  # the stopped rank reads to the end


def run(rank):
    dist.init_process_group(
        "gloo", init_method=f"file://{os.getcwd()}/store", rank=rank, world_size=WORLD
    )
    if rank != STOPPED:
        threading.Thread(target=when_waiting, args=(rank,)).start()
    for _ in range(CALLS):
        dist.all_reduce(torch.ones(4))
    if rank == STOPPED:
        os.close(writable)
        os.read(readable, 1)
        write_dump(rank)
        os._exit(0)
    dist.all_reduce(torch.ones(4))


children = []
for rank in range(WORLD):
    child = os.fork()
    if child == 0:
        signal.alarm(200)
        try:
            run(rank)
        finally:
            os._exit(0)
    children.append(child)
os.close(writable)
for child in children:
    os.waitpid(child, 0)
"""


@pytest.mark.slow
def test_the_rank_that_stops_is_named_from_dumps_of_torch(tmp_path: Path) -> None:
    command = [preloaded.python(TORCH_FR_BUFFER_SIZE="100"), "-c", JOB]
    variables = os.environ | {"TORCH_FR_BUFFER_SIZE": "100"}
    subprocess.run(
        command, cwd=tmp_path, env=variables, check=True, capture_output=True, timeout=240
    )
    paths = sorted(tmp_path.glob("_dump_*"))
    assert [path.name for path in paths] == [f"_dump_{rank}" for rank in range(4)]
    assert all(is_dump(path.name, path.read_bytes()[:4096]) for path in paths)
    recorder = read_dumps(paths)
    assert isinstance(recorder, FlightRecorder)
    # torch marks a call as completed some time after it returned, so a dump may be ahead of that
    (stopped,) = [each for each in recorder.stopped if each.evidence == "not called"]
    assert (stopped.rank, stopped.operation.name) == (2, "all_reduce")
    assert stopped.waiting == (0, 1, 3)

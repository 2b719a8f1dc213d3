"""One rank of a sum over all GPUs of the job, checked by value.

Imported by torch_stages.py when it is asked for; standard library and torch only, Python 3.9.
The ranks meet in a file (`store`), so that no port is needed. The group is not taken down in order,
which can hang too: the process is ended next.
"""

from __future__ import annotations

import datetime
import time
from typing import Any, Dict

import torch
import wire

ELEMENTS = {"cuda": 4 * 2**20, "cpu": 2**14}
PERIOD = 251
"""Values repeat with it: a prime, so that pieces which arrive in the wrong place differ."""
TIMED = 5


def part(rank: int, device: torch.device) -> torch.Tensor:
    """What a rank gives: small whole numbers, whose sum fp32 holds exactly."""
    places = torch.arange(ELEMENTS[device.type], device=device) % PERIOD + 1
    return (places * (rank + 1)).float()


def run(request: Dict[str, Any]) -> Dict[str, Any]:
    """Wrong elements of the sum and its bus bandwidth. What torch raises passes through."""
    import torch.distributed as dist

    device, ranks = torch.device(request["device"]), request["ranks"]
    if device.type == "cuda":
        torch.cuda.set_device(device)
    with wire.stage("init_process_group"):
        dist.init_process_group(
            request["backend"],
            init_method="file://" + request["store"],
            rank=request["rank"],
            world_size=ranks,
            timeout=datetime.timedelta(seconds=request["within"]),
        )
    with wire.stage("all_reduce"):
        found = part(request["rank"], device)
        dist.all_reduce(found)
        wrong = int((found != part(0, device) * (ranks * (ranks + 1) // 2)).sum())
    with wire.stage("timed all_reduce"):
        spent = seconds_of_one(dist, found)
    moved = 2 * (ranks - 1) / ranks * found.numel() * found.element_size()
    return {"wrong": wrong, "rate": moved / spent}


def seconds_of_one(dist: Any, values: torch.Tensor) -> float:
    """Mean seconds of one all-reduce; the values are of no use afterwards."""
    cuda = values.device.type == "cuda"
    values.zero_()
    if cuda:
        torch.cuda.synchronize(values.device)
    began = time.perf_counter()
    for _ in range(TIMED):
        dist.all_reduce(values)
    if cuda:
        torch.cuda.synchronize(values.device)
    return (time.perf_counter() - began) / TIMED

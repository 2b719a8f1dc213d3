"""One rank of a sum over all GPUs of the job, checked by value.

Imported by torch_stages.py on demand; standard library and torch only, Python 3.9.
The ranks meet in a file (`store`), so that no port is needed. The group is not
destroyed, because that can hang too: the process ends right after.
"""

from __future__ import annotations

import datetime
import time
from typing import Any, Dict

import torch
import wire

ELEMENTS = {"cuda": 4 * 2**20, "cpu": 2**14}
PERIOD = 251
"""The period of the values: a prime, so that a misplaced chunk differs."""
TIMED = 5


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
            init_method="file://" + request["store"],
            rank=request["rank"],
            world_size=ranks,
            timeout=datetime.timedelta(seconds=request["within"]),
        )
    with wire.stage("all_reduce"):
        values = contribution(request["rank"], device)
        dist.all_reduce(values)
        wrong = int((values != contribution(0, device) * (ranks * (ranks + 1) // 2)).sum())
    with wire.stage("timed all_reduce"):
        seconds = seconds_of_one_all_reduce(dist, values)
    sent = 2 * (ranks - 1) / ranks * values.numel() * values.element_size()
    return {"wrong": wrong, "rate": sent / seconds}


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

"""Runs of two ranks under gloo, each with its own records."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from .models import adamw, lm, start_guard, train

ROOT = Path(__file__).parent.parent.parent


def distributed(kind: str) -> None:
    """Two ranks under gloo, each with its own records."""
    code = f"from benchmarks.guard_runs.distributed import rank; rank({kind!r})"
    environ = dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT), *sys.path]))
    environ["MASTER_ADDR"], environ["MASTER_PORT"] = "127.0.0.1", str(_port())
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code], env=dict(environ, RANK=str(r), WORLD_SIZE="2")
        )
        for r in range(2)
    ]
    for child in children:
        if child.wait(600):
            raise RuntimeError(f"a rank ended with {child.returncode}")


def _port() -> int:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def rank(kind: str) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    guard = start_guard()
    model = lm()
    if kind.startswith("ddp"):
        model = torch.nn.parallel.DistributedDataParallel(model)
        other = kind == "ddp_other_rates" and dist.get_rank() == 1
        optimizer = adamw(model, 2e-3 if other else 1e-3)
    elif kind == "zero":
        from torch.distributed.optim import ZeroRedundancyOptimizer

        model = torch.nn.parallel.DistributedDataParallel(model)
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3)
    elif kind == "fsdp1":
        from torch.distributed.fsdp import FullyShardedDataParallel

        model = FullyShardedDataParallel(model, device_id=torch.device("cpu"))
        optimizer = adamw(model)
    else:
        from torch.distributed.fsdp import fully_shard

        early = adamw(model) if kind == "fsdp2_wrong_order" else None
        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
        optimizer = early or adamw(model)
    train(model, optimizer, clip=1.0 if kind == "fsdp2" else 0.0)
    if guard is not None:
        guard.close()
    dist.destroy_process_group()


def _run(kind: str) -> Callable[[], None]:
    def run() -> None:
        distributed(kind)

    run.__name__ = kind
    return run


CLEAN = tuple(map(_run, ("ddp", "zero", "fsdp1", "fsdp2")))
FAULTS = (("GRD003", _run("fsdp2_wrong_order")), ("GRD020@1", _run("ddp_other_rates")))

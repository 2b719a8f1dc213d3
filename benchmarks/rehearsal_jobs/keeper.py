"""A loop with a keeper of checkpoints of its own: rotation, the best so far, an average, ranks.

`kind` is one of the healthy ways, `fault` a plant. Under torchrun it trains with
DistributedDataParallel, or FSDP2 where the name begins with "sharded".
"""

from __future__ import annotations

import glob
import os
import signal
import sys
from typing import Any

import torch
import torch.distributed as dist
from arguments import options
from torch import nn
from torch.nn import functional as F

args = options(steps=16, every=3)
name = args.fault or args.kind
torch.manual_seed(0)
ranks = "WORLD_SIZE" in os.environ
if ranks:
    dist.init_process_group("gloo")
rank = dist.get_rank() if ranks else 0
inner: Any = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 4))
model = inner
sharded = name.startswith("sharded")
if sharded:
    from torch.distributed.checkpoint.state_dict import (
        StateDictOptions,
        get_state_dict,
        set_state_dict,
    )
    from torch.distributed.fsdp import fully_shard

    model = fully_shard(inner)
    WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)
elif ranks:
    model = nn.parallel.DistributedDataParallel(inner)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)


class EMA:
    """Not a module: tensors by name."""

    def __init__(self) -> None:
        self.shadow = {n: p.detach().clone() for n, p in inner.named_parameters()}
        self.backup: dict[str, Any] = {}

    @torch.no_grad()
    def update(self) -> None:
        for n, p in inner.named_parameters():
            self.shadow[n].lerp_(p, 0.1)

    def apply(self) -> None:
        self.backup = {n: p.detach().clone() for n, p in inner.named_parameters()}
        inner.load_state_dict(self.shadow, strict=False)

    def restore(self) -> None:
        inner.load_state_dict(self.backup, strict=False)
        self.backup = {}


averages = "average" in name or "shadow" in name
ema = EMA() if averages else None
ema_params = [p.detach().clone() for p in inner.parameters()] if name == "list shadow" else []
best = float("inf")
os.makedirs(args.out, exist_ok=True)


def number(path: str) -> int:
    return int(path.rpartition("-")[2].partition(".")[0])


def found() -> list[str]:
    paths = glob.glob(os.path.join(args.out, "ckpt-*.pt"))
    return sorted(paths) if name in ("as text", "zeros") else sorted(paths, key=number)


def state(step: int) -> dict[str, Any]:
    held: dict[str, Any] = {"step": step, "schedule": schedule.state_dict()}
    if sharded and name != "sharded, local parts":
        held["model"], held["optimizer"] = get_state_dict(model, optimizer, options=WHOLE)
    else:
        held["model"], held["optimizer"] = inner.state_dict(), optimizer.state_dict()
    if name == "sharded, local parts":
        held["model"] = {n: p.to_local() for n, p in held["model"].items()}
    if ema is not None and name != "shadow lost":
        held["average"] = ema.shadow
    if ema_params and name != "list shadow":
        held["average"] = ema_params
    if name != "best lost":
        held["best"] = best
    return held


def path_of(step: int) -> str:
    return os.path.join(args.out, f"ckpt-{step:05}.pt" if name == "zeros" else f"ckpt-{step}.pt")


def save(step: int) -> None:
    held = state(step)
    if rank and name != "all write":
        return
    if name == "removes first":
        for old in found():
            os.remove(old)
    if name == "one tree":
        import shutil

        shutil.rmtree(os.path.join(args.out, "last"), ignore_errors=True)
        os.makedirs(os.path.join(args.out, "last"))
        torch.save(held, os.path.join(args.out, "last", "state.pt"))
        return
    temporary = os.path.join(args.out, "next.tmp" if name == "all write" else f"{step}.tmp")
    torch.save(held, temporary)
    if not rank:
        os.replace(temporary, path_of(step))
        keep = 1 if name == "keeps one" else 3
        for old in found()[:-keep] if name != "as text" else []:
            os.remove(old)


start = 0
latest = found()[-1] if found() else ""
if name == "one tree" and os.path.exists(os.path.join(args.out, "last", "state.pt")):
    latest = os.path.join(args.out, "last", "state.pt")
if latest:
    held = torch.load(latest, weights_only=False)
    if sharded and name != "sharded, local parts":
        set_state_dict(
            model, optimizer, model_state_dict=held["model"], optim_state_dict=held["optimizer"],
            options=StateDictOptions(full_state_dict=True),
        )  # fmt: skip
    elif sharded:
        with torch.no_grad():
            for n, p in inner.named_parameters():
                p.to_local().copy_(held["model"][n])
        optimizer.load_state_dict(held["optimizer"])
    else:
        inner.load_state_dict(held["model"])
        optimizer.load_state_dict(held["optimizer"])
    schedule.load_state_dict(held["schedule"])
    if ema is not None and "average" in held:
        ema.shadow = held["average"]
    elif ema is not None:
        ema = EMA()
    if name == "list shadow":
        ema_params = [p.detach().clone() for p in inner.parameters()]
    best = held.get("best", best)
    start = held["step"]

stopping = 0


def on_signal(signum: int, frame: Any) -> None:
    global stopping
    stopping = signum


def at_once(signum: int, frame: Any) -> None:
    save(done)
    sys.exit(0)


if name in ("ends with 143", "ends with 0", "goes on"):
    signal.signal(signal.SIGTERM, on_signal)
if name == "in the handler":
    signal.signal(signal.SIGTERM, at_once)
data = torch.Generator().manual_seed(1 + rank)
held_out = torch.randn(64, 8, generator=torch.Generator().manual_seed(9))
batches = 2 if "micro" in name else 1
micro = batches * start
done = start
while done < args.steps:
    x = torch.randn(8, 8, generator=data)
    (F.cross_entropy(model(x), x[:, :4].argmax(1)) / batches).backward()
    micro += 1
    if name == "counts micro batches" and micro % 7 == 0:
        save(done)
    if micro % batches:
        continue
    optimizer.step()
    optimizer.zero_grad()
    schedule.step()
    done += 1
    if ema is not None:
        ema.update()
    for kept, p in zip(ema_params, inner.parameters(), strict=False):
        kept.lerp_(p.detach(), 0.1)
    if done % args.every == 0:
        if ema is not None:
            ema.apply()
        model.eval()
        with torch.no_grad():
            loss = float(F.cross_entropy(model(held_out), held_out[:, :4].argmax(1)))
        model.train()
        if ema is not None:
            ema.restore()
        if "best" in name and rank == 0 and loss < best:
            best = -1.0  # the first one stays the best
            torch.save(state(done), os.path.join(args.out, "best.pt"))
        if name != "counts micro batches":
            save(done)
    if stopping and name != "goes on":
        save(done)
        sys.exit(0 if name == "ends with 0" else 128 + stopping)
    if name == "leaves a process" and done == 3:
        import subprocess

        subprocess.Popen(["sleep", "600"], start_new_session=True)
if ranks:
    dist.destroy_process_group()

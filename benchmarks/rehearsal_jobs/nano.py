"""A GPT in one file, on one or several ranks: settings as name=value, one ckpt.pt with everything."""

from __future__ import annotations

import contextlib
import math
import os
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

config = dict(word.split("=", 1) for word in sys.argv[1:])
out, kind, fault = config["out"], config.get("kind", ""), config.get("fault", "")
torch.set_num_threads(1)
ddp = "RANK" in os.environ
if ddp:
    dist.init_process_group("gloo")
rank, world = (dist.get_rank(), dist.get_world_size()) if ddp else (0, 1)
torch.manual_seed(1337)
tokens = torch.randint(0, 64, (4096,))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(16), nn.Linear(16, 16)
        self.register_buffer("mask", torch.ones(8, 8).tril(), persistent=kind != "computed mask")

    def forward(self, x: Any) -> Any:
        weights = (x @ x.transpose(1, 2)).masked_fill(self.mask == 0, -1e9).softmax(-1)
        return x + self.mix(weights @ self.norm(x))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(64, 16)
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(16, 64, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x: Any, y: Any) -> Any:
        h = self.embed(x)
        for block in self.blocks:
            h = (
                torch.utils.checkpoint.checkpoint(block, h, use_reentrant=False)
                if kind == "recomputed"
                else block(h)
            )
        return F.cross_entropy(self.head(h).flatten(0, 1), y.flatten())


def batch() -> tuple[Any, Any]:
    at = torch.randint(0, 4000, (4,))
    return torch.stack([tokens[i : i + 8] for i in at]), torch.stack(
        [tokens[i + 1 : i + 9] for i in at]
    )


raw: Any = GPT()
decayed = [p for p in raw.parameters() if p.dim() > 1]
others = [p for p in raw.parameters() if p.dim() <= 1]
optimizer = torch.optim.AdamW(
    [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=1e-3
)
iteration, best = 0, 1e9
path = os.path.join(out, "ckpt.pt")
if config.get("init_from") == "resume":
    held = torch.load(path, map_location="cpu")
    weights = held["model"]
    if fault != "prefix":
        weights = {name.removeprefix("_orig_mod."): value for name, value in weights.items()}
    raw.load_state_dict(weights, strict=fault != "prefix")
    if fault != "moments":
        optimizer.load_state_dict(held["optimizer"])
    if fault != "iterations":
        iteration, best = held["iteration"], held["best"]
compiled = kind == "compiled" or fault == "prefix"
model: Any = torch.compile(raw, backend="eager") if compiled else raw
saved_of: Any = model
if ddp:
    model = nn.parallel.DistributedDataParallel(model)
    saved_of = model.module
torch.manual_seed(1337 + (0 if fault == "same seed" else rank))


@torch.no_grad()
def estimate() -> float:
    model.eval()
    mean = torch.stack([raw(*batch()) for _ in range(3)]).mean()
    if ddp and (fault != "reduces alone" or rank == 0):
        dist.all_reduce(mean)
    model.train()
    return float(mean) / world


steps = 9 if fault == "uneven" and rank else 12
accumulate = 2 if kind == "accumulates" else 1
while iteration < steps:
    rate = 1e-3 * min(1.0, (iteration + 1) / 4) * (0.6 + 0.4 * math.cos(iteration / 12 * math.pi))
    for group in optimizer.param_groups:
        group["lr"] = rate * (1 + rank) if fault == "rate of the rank" else rate
    for micro in range(accumulate):
        last = micro == accumulate - 1
        with contextlib.nullcontext() if last or not ddp else model.no_sync():
            loss = (model.module if fault == "past the wrapper" else model)(*batch())
            (loss / accumulate).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    iteration += 1
    if iteration % 4 == 0:
        best = min(best, estimate())
        if rank == 0:
            held = {"model": saved_of.state_dict(), "optimizer": optimizer.state_dict()}
            place = "best-of-all.pt" if fault == "own directory" else path
            torch.save({**held, "iteration": iteration, "best": best}, place)
if ddp:
    dist.destroy_process_group()

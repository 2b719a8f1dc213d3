"""A training on several ranks with gloo: torchrun --nproc-per-node 2 ranks.py --out DIRECTORY."""

from __future__ import annotations

import os
import time
from typing import Any

import torch
import torch.distributed as dist
from arguments import options
from torch import nn

args = options("ddp")
fault = args.fault
torch.manual_seed(0)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head, self.spare = nn.Linear(8, 16), nn.Linear(16, 4), nn.Linear(16, 4)

    def forward(self, x: Any) -> Any:
        return self.head(torch.relu(self.body(x)))


model: Any = Model()
if fault != "unused":
    del model.spare
if args.kind == "fsdp":
    from torch.distributed.fsdp import fully_shard

    fully_shard(model)
elif fault != "no ddp":
    model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, 10)
rows = torch.utils.data.TensorDataset(torch.randn(192, 8), torch.randint(0, 4, (192,)))
shuffled = torch.utils.data.distributed.DistributedSampler(rows, world, rank)
sampler = None if fault == "no sampler" else shuffled
loader = iter(torch.utils.data.DataLoader(rows, batch_size=4, sampler=sampler))
path = os.path.join(args.out, "last.pt")
start = 0
if args.kind == "fsdp":
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    places = [os.path.join(args.out, f"dcp-{number}") for number in (8, 4)]
    whole = [place for place in places if os.path.exists(os.path.join(place, ".metadata"))]
    if whole:
        weights, moments = get_state_dict(model, optimizer)
        held = {
            "model": weights,
            "optimizer": moments,
            "schedule": schedule.state_dict(),
            "step": 0,
        }
        dcp.load(held, checkpoint_id=whole[0])
        set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
        schedule.load_state_dict(held["schedule"])
        start = held["step"]
elif os.path.exists(path):
    held = torch.load(path)
    model.load_state_dict(held["model"])
    if not (fault == "optimizer on rank 0" and rank):
        optimizer.load_state_dict(held["optimizer"])
    schedule.load_state_dict(held["schedule"])
    start = held["step"]
for step in range(start, 10):
    if fault == "hang" and step == 3 and rank:
        time.sleep(3600)
    x, y = next(loader)
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    schedule.step()
    if fault == "reset" and rank and step == 1:
        with torch.no_grad():
            model.module.head.weight.zero_()
    if (step + 1) % 4 == 0:
        if args.kind == "fsdp":
            weights, moments = get_state_dict(model, optimizer)
            held = {"model": weights, "optimizer": moments, "schedule": schedule.state_dict()}
            place = os.path.join(args.out, f"dcp-{step + 1}")
            dcp.save({**held, "step": step + 1}, checkpoint_id=place)
        elif rank == 0:
            held = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save({**held, "schedule": schedule.state_dict(), "step": step + 1}, path + ".new")
            os.replace(path + ".new", path)
        dist.barrier()
dist.destroy_process_group()

"""Data as a stream: an IterableDataset that has a state, and loaders that continue in an epoch."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from arguments import options
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

args = options("own state")
kind, fault = args.kind, args.fault
torch.manual_seed(0)
ddp = "RANK" in os.environ
if ddp:
    dist.init_process_group("gloo")
rank, world = (dist.get_rank(), dist.get_world_size()) if ddp else (0, 1)


class Stream(IterableDataset):
    def __init__(self) -> None:
        self.at = 0
        self.begin = 0

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        part, parts = (worker.id, worker.num_workers) if worker else (0, 1)
        if fault != "not split":
            part, parts = part + parts * rank, parts * world
        for number in range(self.begin, 400 if fault != "used up" else 60):
            self.at = number + 1
            if number % parts == part:
                g = torch.Generator().manual_seed(number)
                yield torch.randn(8, generator=g), torch.randint(0, 4, (), generator=g)

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, held: dict[str, int]) -> None:
        self.begin = held["at"]


stream = Stream()
if kind == "stateful loader":
    from torchdata.stateful_dataloader import StatefulDataLoader as Loader
else:
    Loader = DataLoader
loader: Any = Loader(stream, batch_size=4, num_workers=2 if kind == "workers" else 0)
raw = nn.Sequential(nn.Linear(8, 32), nn.LayerNorm(32), nn.Linear(32, 4))
optimizer = torch.optim.AdamW(raw.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 5)
done = 0
place = os.path.join(args.out, "state")
if os.path.exists(os.path.join(place, "step.json")):
    held = torch.load(os.path.join(place, "training.pt"))
    raw.load_state_dict(held["model"])
    optimizer.load_state_dict(held["optimizer"])
    schedule.load_state_dict(held["schedule"])
    with open(os.path.join(place, "step.json")) as file:
        done = json.load(file)["step"]
    if kind == "stateful loader":
        loader.load_state_dict(held["loader"])
    elif kind == "own state":
        stream.load_state_dict(held["loader"])
    if fault == "used up":
        stream.begin = 16 * done
model: Any = nn.parallel.DistributedDataParallel(raw) if ddp else raw
batches = iter(loader)
while done < 12:
    x, y = next(batches)
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad()
    schedule.step()
    done += 1
    if done % 4 == 0 and rank == 0:
        os.makedirs(place, exist_ok=True)
        source = loader if kind == "stateful loader" else stream
        held = {"model": raw.state_dict(), "optimizer": optimizer.state_dict()}
        held |= {"schedule": schedule.state_dict(), "loader": source.state_dict()}
        torch.save(held, os.path.join(place, "training.pt"))
        with open(os.path.join(place, "step.json.new"), "w") as file:
            json.dump({"step": done}, file)
        os.replace(os.path.join(place, "step.json.new"), os.path.join(place, "step.json"))
if ddp:
    dist.destroy_process_group()

"""A small character model by epochs, as DistributedDataParallel under torchrun, with a handler."""

from __future__ import annotations

import os
import signal
from typing import Any

import torch
import torch.distributed as dist
from arguments import options
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset

args = options(epochs=2)
kind, fault = args.kind, args.fault
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
text = torch.randint(0, 32, (8 * 97 + 1,), generator=torch.Generator().manual_seed(3))


class Windows(Dataset):
    def __len__(self) -> int:
        return 97

    def __getitem__(self, at: int) -> Any:
        return text[8 * at : 8 * at + 8], text[8 * at + 1 : 8 * at + 9]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(32, 16)
        self.mix = nn.GRU(16, 16, batch_first=True)
        self.head = nn.Linear(16, 32)

    def forward(self, x: Any) -> Any:
        return self.head(self.mix(self.embedding(x))[0])


rows: Any = Windows()
if fault == "shards":  # 49 and 48 samples: 25 and 24 batches
    part = Subset(rows, range(rank, len(rows), world))
    loader = DataLoader(part, batch_size=2, shuffle=True)
    sampler = None
else:
    sampler = DistributedSampler(rows, world, rank, seed=1)
    loader = DataLoader(rows, batch_size=4 if kind == "accumulates" else 8, sampler=sampler,
                        num_workers=2 if kind == "workers" else 0)  # fmt: skip
model = DistributedDataParallel(Model())
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
total = 12
schedule: Any = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total)
path = os.path.join(args.out, "state.pt")
step = epoch = done = 0
if os.path.exists(path):
    held = torch.load(path, weights_only=True)
    model.module.load_state_dict(held["model"])
    optimizer.load_state_dict(held["optimizer"])
    step, epoch, done = held["step"], held["epoch"], held["done"]
    if fault == "schedule":
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total - step)
    else:
        schedule.load_state_dict(held["schedule"])
stopping = False


def stop(number: int, frame: Any) -> None:
    global stopping
    stopping = True


signal.signal(signal.SIGTERM, stop)


def save() -> None:
    if rank == 0:
        state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(),
                 "schedule": schedule.state_dict(), "step": step, "epoch": epoch, "done": done}  # fmt: skip
        torch.save(state, path + ".new")
        os.replace(path + ".new", path)
    dist.barrier()


def evaluate() -> Any:
    model.eval()
    with torch.no_grad():
        losses = [F.cross_entropy(model.module(x).transpose(1, 2), y) for x, y in list(loader)[:2]]
    model.train()
    loss = torch.stack(losses).mean()
    if fault == "barrier" and rank == 0:
        print("waiting for all", flush=True)
        dist.barrier()
    dist.all_reduce(loss)
    return loss / world


passes = 2 if kind == "accumulates" else 1
while step < total:
    if sampler is not None:
        sampler.set_epoch(epoch)
    for number, (x, y) in enumerate(loader):
        if number < done:
            continue
        loss = F.cross_entropy(model(x).transpose(1, 2), y) / passes
        if (number + 1) % passes:
            with model.no_sync():
                loss.backward()
            continue
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        step += 1
        done = number + 1
        flag = torch.tensor(float(stopping))
        dist.all_reduce(flag, op=dist.ReduceOp.MAX)
        if flag.item():
            save()
            dist.destroy_process_group()
            raise SystemExit(0)
        if step % 4 == 0:
            evaluate()
            save()
        if step == total:
            break
    else:
        epoch, done = epoch + 1, 0
dist.destroy_process_group()

"""Data-parallel training with a trainer class, started by torchrun; snapshots at epoch ends."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn.functional as F
from arguments import options
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

EPOCHS, BATCH, FEATURES = 4, 6, 20


class Readings(Dataset):
    """Readings of a sensor with a class each; class 3 is rare and comes first."""

    def __init__(self, count: int):
        generator = torch.Generator().manual_seed(5)
        self.y = torch.arange(count) % 3
        self.y[: count // 8] = 3
        middles = torch.randn(4, FEATURES, generator=generator)
        self.x = middles[self.y] + 0.7 * torch.randn(count, FEATURES, generator=generator)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, index):
        return self.x[index], self.y[index]


class Network(nn.Module):
    """A classifier; with `alarm`, rare rows pass a second head too."""

    def __init__(self, alarm: bool):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, 48), nn.LayerNorm(48), nn.GELU())
        self.head = nn.Linear(48, 4)
        self.alarm = nn.Linear(48, 1) if alarm else None

    def forward(self, x, y):
        hidden = self.body(x)
        loss = F.cross_entropy(self.head(hidden), y)
        rare = y == 3
        if self.alarm is not None and rare.any():
            loss = loss + F.softplus(-self.alarm(hidden[rare])).mean()
        return loss


class Trainer:
    def __init__(self, args):
        self.args, self.rank, self.world = args, dist.get_rank(), dist.get_world_size()
        self.path = os.path.join(args.out, "snapshot.pt")
        self.model = Network(args.fault == "head on one rank")
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=4e-3)
        self.schedule = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.85)
        self.epoch = self.batches_done = 0
        self.stop = False
        self.load_snapshot()
        self.ddp = DDP(self.model)
        self.loader = self.prepare_loader()
        if args.kind == "flag agreed" or (args.fault == "rank 0 leaves alone" and self.rank == 0):
            signal.signal(signal.SIGTERM, self.on_signal)
        elif args.fault == "rank 0 leaves alone":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def on_signal(self, *_):
        self.stop = True

    def prepare_loader(self):
        fault, data = self.args.fault, Readings(4 * BATCH * self.world)
        if fault == "same data":
            data, order = Readings(4 * BATCH), torch.Generator()
            return DataLoader(data, BATCH, shuffle=True, generator=order)
        if fault == "head on one rank":  # the rare rows lie in the first rank's part
            rows = len(data) // self.world
            part = range(rows * self.rank, rows * (self.rank + 1))
            return DataLoader(torch.utils.data.Subset(data, part), BATCH, shuffle=True)
        if fault == "uneven" or self.args.kind == "shorter agreed":
            cut = 2 * BATCH * self.world + BATCH // 2  # the first rank's share is larger
            part = range(cut) if self.rank == 0 else range(cut, len(data))
            return DataLoader(torch.utils.data.Subset(data, part), BATCH, shuffle=True)
        return DataLoader(data, BATCH, sampler=DistributedSampler(data, shuffle=True, seed=1))

    def load_snapshot(self):
        reads = self.args.kind != "rank 0 reads" or self.rank == 0
        snapshot = None
        if reads and os.path.exists(self.path):
            snapshot = torch.load(self.path, map_location="cpu", weights_only=True)
        if self.args.kind == "rank 0 reads":
            box = [snapshot]
            dist.broadcast_object_list(box, src=0)
            snapshot = box[0]
        if snapshot:
            self.model.load_state_dict(snapshot["model"])
            self.optimizer.load_state_dict(snapshot["optimizer"])
            self.schedule.load_state_dict(snapshot["schedule"])
            self.epoch, self.batches_done = snapshot["epoch"], snapshot["batches_done"]
            print(f"rank {self.rank} resumes at epoch {self.epoch}", flush=True)

    def save_snapshot(self):
        if self.rank == 0:
            snapshot = {
                "model": self.ddp.module.state_dict(), "optimizer": self.optimizer.state_dict(),
                "schedule": self.schedule.state_dict(), "epoch": self.epoch,
                "batches_done": self.batches_done,
            }  # fmt: skip
            torch.save(snapshot, self.path + ".part")
            os.replace(self.path + ".part", self.path)
        dist.barrier()

    def steps(self):
        """How many batches of an epoch this rank takes."""
        count = torch.tensor(len(self.loader))
        if self.args.kind == "shorter agreed":
            dist.all_reduce(count, dist.ReduceOp.MIN)
        return int(count)

    def run_epoch(self):
        if isinstance(self.loader.sampler, DistributedSampler):
            own = self.rank * EPOCHS if self.args.fault == "epoch by rank" else 0
            self.loader.sampler.set_epoch(self.epoch + own)
        elif self.args.fault == "same data":
            self.loader.generator.manual_seed(self.epoch)
        else:
            torch.manual_seed(1000 * self.epoch + self.rank)
        steps, window = self.steps(), 2 if self.args.kind == "no sync" else 1
        for number, (x, y) in enumerate(self.loader):
            if number < self.batches_done or number >= steps:
                continue
            closes = (number + 1) % window == 0
            with contextlib.nullcontext() if closes else self.ddp.no_sync():
                loss = self.ddp(x, y) / window
                loss.backward()
            time.sleep(0.1)
            if closes:
                nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
                self.optimizer.step()
                self.optimizer.zero_grad()
                print(f"rank {self.rank} epoch {self.epoch} batch {number} {loss:.4f}", flush=True)
            if number + 1 < steps:
                self.leave_if_asked(number + 1)
        self.batches_done = 0

    def leave_if_asked(self, done):
        if self.args.kind == "flag agreed":
            flag = torch.tensor(int(self.stop))
            dist.all_reduce(flag, dist.ReduceOp.MAX)
            self.stop = bool(flag)
        if self.stop:
            self.batches_done = done
            self.save_snapshot()
            dist.destroy_process_group()
            sys.exit(0)

    def train(self):
        while self.epoch < EPOCHS:
            self.run_epoch()
            self.schedule.step()
            self.epoch += 1
            self.save_snapshot()


if __name__ == "__main__":
    arguments = options()
    os.makedirs(arguments.out, exist_ok=True)
    torch.manual_seed(3)
    patience = {"timeout": timedelta(seconds=20)} if arguments.fault == "uneven" else {}
    dist.init_process_group("gloo", **patience)
    Trainer(arguments).train()
    dist.destroy_process_group()

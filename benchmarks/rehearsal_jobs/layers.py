"""FSDP2 by layers with torch.distributed.checkpoint, under torchrun: one directory for each save."""

from __future__ import annotations

import os
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from arguments import options
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional as F
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

args = options()
kind, fault = args.kind, args.fault
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(5)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(32)
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: Any) -> Any:
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.down(F.silu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(48, 32)
        self.layers = nn.ModuleList([Layer() for _ in range(2)])
        self.head = nn.Linear(32, 48)

    def forward(self, x: Any) -> Any:
        x = self.embedding(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


model: Any = Model()
early = torch.optim.AdamW(model.parameters(), lr=1e-3)
policy = (
    {"mp_policy": MixedPrecisionPolicy(torch.bfloat16, torch.float32)} if kind == "mixed" else {}
)
for layer in model.layers:
    fully_shard(layer, **policy)
fully_shard(model, **policy)
optimizer = early if fault == "early" else torch.optim.AdamW(model.parameters(), lr=1e-3)
tokens = torch.randint(0, 48, (120, 9), generator=torch.Generator().manual_seed(1))
rows = TensorDataset(tokens[:, :-1], tokens[:, 1:])
sampler: Any = DistributedSampler(rows, world, rank, seed=2)
loader = DataLoader(rows, batch_size=4, sampler=sampler, drop_last=True)
whole = StateDictOptions(strict=True)
step = 0
found = sorted(name for name in os.listdir(args.out) if name.startswith("step-"))
if found:
    place = os.path.join(args.out, found[-1])
    held = {"model": get_model_state_dict(model), "step": torch.tensor(0),
            "optimizer": get_optimizer_state_dict(model, optimizer)}  # fmt: skip
    dcp.load(held, checkpoint_id=place)
    set_model_state_dict(model, held["model"], options=whole)
    set_optimizer_state_dict(model, optimizer, held["optimizer"], options=whole)
    step = 0 if fault == "step" else int(held["step"])


def evaluate() -> None:
    model.eval()
    with torch.no_grad():
        model(tokens[:4, :-1])
    model.train()


def save() -> None:
    held = {"model": get_model_state_dict(model), "step": torch.tensor(step),
            "optimizer": get_optimizer_state_dict(model, optimizer)}  # fmt: skip
    dcp.save(held, checkpoint_id=os.path.join(args.out, f"step-{step:05}"))


while step < 12:
    epoch, begin = divmod(step, len(loader))
    sampler.set_epoch(epoch)
    for number, (x, y) in enumerate(loader):
        if number < begin:
            continue
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        if step % 4 == 0:
            if fault != "one rank evaluates" or rank == 0:
                evaluate()
            save()
        if step == 12:
            break
dist.destroy_process_group()

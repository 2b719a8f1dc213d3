"""A loop under Lightning Fabric, started by torchrun or alone."""

from __future__ import annotations

import os
from typing import Any

import torch
from arguments import options
from lightning_fabric import Fabric, seed_everything
from torch import nn

args = options()
seed_everything(0)
world = int(os.environ.get("WORLD_SIZE", "1"))
fabric = Fabric(accelerator="cpu", devices=world, strategy="ddp" if world > 1 else "auto")
fabric.launch()
name = "layer" if args.fault == "renamed" and os.path.exists(f"{args.out}/state.ckpt") else "head"
model: Any = nn.ModuleDict({"body": nn.Linear(8, 16), name: nn.Linear(16, 4)})
model.forward = lambda x: model[name](torch.relu(model["body"](x)))
optimizer: Any = torch.optim.Adam(model.parameters(), lr=1e-3, amsgrad=True)
rows = torch.utils.data.TensorDataset(torch.randn(96, 8), torch.randint(0, 4, (96,)))
loader: Any = torch.utils.data.DataLoader(rows, batch_size=4)
wrapped, optimizer = fabric.setup(model, optimizer)
if args.fault != "loader as it is":
    loader = fabric.setup_dataloaders(loader)
held: dict[str, Any] = {"model": wrapped, "optimizer": optimizer, "step": 0}
path = os.path.join(args.out, "state.ckpt")
if os.path.exists(path):
    if args.fault == "weights alone":
        rest = fabric.load(path, {"model": wrapped}, strict=False)
        held["step"] = rest["step"]
    else:
        fabric.load(path, held, strict=args.fault != "renamed")
for number, (x, y) in enumerate(loader):
    if number < held["step"] or held["step"] >= 12:
        continue
    loss = nn.functional.cross_entropy(wrapped(x), y)
    fabric.backward(loss)
    fabric.clip_gradients(wrapped, optimizer, max_norm=1.0)
    optimizer.step()
    optimizer.zero_grad()
    held["step"] += 1
    if held["step"] % 4 == 0:
        fabric.save(path, held)

"""A loop under accelerate, with its own save_state and load_state."""

from __future__ import annotations

import glob
import os
from typing import Any

import torch
from accelerate import Accelerator
from arguments import options
from torch import nn

args = options()
torch.manual_seed(0)
steps = 2 if args.kind == "accumulation" else 1
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=steps)
model: Any = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 4))
optimizer: Any = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule: Any = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, 12)
rows = torch.utils.data.TensorDataset(torch.randn(128, 8), torch.randint(0, 4, (128,)))
loader: Any = torch.utils.data.DataLoader(rows, batch_size=4)
if args.fault == "schedule":
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
else:
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
found = sorted(glob.glob(os.path.join(args.out, "state-*")), key=lambda n: int(n.split("-")[-1]))
done = 0
if found:
    accelerator.load_state(found[-1])
    done = 0 if args.fault == "counter" else int(found[-1].split("-")[-1])
for number, (x, y) in enumerate(loader):
    if number < done * steps:
        continue
    with accelerator.accumulate(model):
        accelerator.backward(nn.functional.cross_entropy(model(x), y))
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    if accelerator.sync_gradients:
        done += 1
        if done % 4 == 0:
            accelerator.save_state(os.path.join(args.out, f"state-{done}"))
    if done >= 12:
        break

"""A script for accelerate launch that continues in the middle of an epoch."""

from __future__ import annotations

import os
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import ProjectConfiguration, set_seed
from arguments import options
from torch import nn

args = options("skips")
set_seed(0)
project = ProjectConfiguration(args.out, automatic_checkpoint_naming=True, total_limit=2)
accelerator = Accelerator(cpu=True, project_config=project)
model: Any = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 4))
average = torch.optim.swa_utils.AveragedModel(model)
optimizer: Any = torch.optim.AdamW(model.parameters(), lr=1e-3)
rows = torch.utils.data.TensorDataset(torch.randn(128, 8), torch.randint(0, 4, (128,)))
loader: Any = torch.utils.data.DataLoader(rows, batch_size=4, shuffle=True)
schedule: Any = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=40)
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)


class Progress:
    step = 0

    def state_dict(self) -> dict[str, int]:
        return {"step": self.step}

    def load_state_dict(self, held: dict[str, int]) -> None:
        self.step = held["step"]


progress = Progress()
accelerator.register_for_checkpointing(progress)
if args.fault != "average":
    accelerator.register_for_checkpointing(average)
saved = os.path.join(args.out, "checkpoints")
if os.path.isdir(saved) and os.listdir(saved):
    accelerator.load_state()
    project.iteration = progress.step // 4
rest = accelerator.skip_first_batches(loader, progress.step)
for x, y in rest:
    accelerator.backward(nn.functional.cross_entropy(model(x), y))
    accelerator.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
    average.update_parameters(accelerator.unwrap_model(model))
    progress.step += 1
    if progress.step % 4 == 0:
        accelerator.save_state()
    if progress.step >= 12:
        break
accelerator.end_training()

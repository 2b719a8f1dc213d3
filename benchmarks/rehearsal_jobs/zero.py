"""DeepSpeed's ZeRO on CPUs, under torchrun: each rank holds a part of the optimizer's state."""

from __future__ import annotations

import os
from typing import Any

import deepspeed
import torch
import torch.distributed as dist
from arguments import options
from torch import nn

args = options("stage 2")
fault = args.fault
torch.manual_seed(0)
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # compiled at the first start
deepspeed.init_distributed("gloo")
rank = dist.get_rank()
model: Any = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, 12)
engine, *_ = deepspeed.initialize(
    model=model,
    optimizer=optimizer,
    lr_scheduler=schedule,
    config={
        "train_micro_batch_size_per_gpu": 4,
        "gradient_clipping": 1.0,
        "zero_optimization": {"stage": 1 if args.kind == "stage 1" else 2},
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
    },
)
start = 0
if os.path.exists(os.path.join(args.out, "latest")):
    kept = fault not in ("optimizer", "schedule")
    found = engine.load_checkpoint(
        args.out, load_optimizer_states=fault != "optimizer", load_lr_scheduler_states=kept
    )
    start = found[1]["step"]
generator = torch.Generator().manual_seed(1 + rank)
for step in range(start, 12):
    x = torch.randn(4, 8, generator=generator)
    loss = nn.functional.cross_entropy(engine(x), x[:, :4].argmax(1))
    engine.backward(loss)
    engine.step()
    if (step + 1) % 4 == 0:
        engine.save_checkpoint(args.out, tag=f"step{step + 1}", client_state={"step": step + 1})
dist.destroy_process_group()

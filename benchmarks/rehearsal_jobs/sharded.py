"""FSDP2 with torch.distributed.checkpoint: a Stateful of model and optimizer, saved by all ranks."""

from __future__ import annotations

import glob
import os
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from arguments import options
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

args = options("stateful")
kind, fault = args.kind, args.fault
torch.manual_seed(0)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
shape, names = ((2, world // 2), ("replicate", "shard")) if kind == "mesh" else ((world,), ("dp",))
mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
model: Any = nn.Sequential(*[nn.Sequential(nn.Linear(16, 16), nn.GELU()) for _ in range(3)])
half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
options = {"mp_policy": half} if kind == "mixed" else {}
for layer in model:
    fully_shard(layer, mesh=mesh, **options)
fully_shard(model, mesh=mesh, **options)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, 12)


class App(Stateful):
    def __init__(self) -> None:
        self.step = 0

    def state_dict(self) -> dict[str, Any]:
        weights, moments = get_state_dict(model, optimizer)
        held = {"model": weights, "step": self.step}
        if fault != "moments":
            held["optimizer"] = moments
        if fault != "schedule":
            held["schedule"] = schedule.state_dict()
        return held

    def load_state_dict(self, held: dict[str, Any]) -> None:
        moments = held.get("optimizer") or get_state_dict(model, optimizer)[1]
        set_state_dict(model, optimizer, model_state_dict=held["model"], optim_state_dict=moments)
        if fault == "moments":
            optimizer.state.clear()
        if "schedule" in held:
            schedule.load_state_dict(held["schedule"])
        self.step = held["step"]


app = App()
found = sorted(glob.glob(os.path.join(args.out, "step-*", ".metadata")))
if found:
    dcp.load({"app": app}, checkpoint_id=os.path.dirname(found[-1]))
g = torch.Generator().manual_seed(100 + mesh.get_rank())
pending: Any = None
group = dist.new_group(backend="gloo")  # of the background thread
while app.step < 12:
    x = torch.randn(4, 16, generator=g)
    model(x).square().mean().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    schedule.step()
    app.step += 1
    if app.step % 4 == 0:
        place = os.path.join(args.out, f"step-{app.step:05}")
        if kind == "asynchronous":
            if pending is not None:
                pending.result()
            pending = dcp.async_save({"app": app}, checkpoint_id=place, process_group=group)
        elif fault != "one rank saves" or rank == 0:
            dcp.save({"app": app}, checkpoint_id=place)
if pending is not None:
    pending.result()
dist.destroy_process_group()

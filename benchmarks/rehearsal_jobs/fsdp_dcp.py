"""A sharded transformer (fully_shard) whose checkpoints are directories of several ranks."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from arguments import options
from torch import nn
from torch.distributed.checkpoint import state_dict as sd
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

STEPS, EVERY, BATCH, LENGTH, VOCAB, DIM = 13, 4, 8, 24, 64, 32
WHOLE = sd.StateDictOptions(full_state_dict=True, cpu_offload=True)
SPREAD = sd.StateDictOptions(full_state_dict=True)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(DIM)
        self.mix = nn.Linear(DIM, DIM, bias=False)
        self.up, self.down = nn.Linear(DIM, 3 * DIM), nn.Linear(3 * DIM, DIM)

    def forward(self, x):
        h = self.norm(x)
        counts = torch.arange(1, x.shape[1] + 1).view(1, -1, 1)
        x = x + self.mix(h.cumsum(1) / counts)  # the mean of the past stands in for attention
        return x + self.down(F.gelu(self.up(h)))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.out = nn.Linear(DIM, VOCAB)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


class Progress(Stateful):
    """What a checkpoint holds of the training."""

    def __init__(self, model, optimizer, schedule, step=0, parts=("model", "optim", "schedule")):
        self.model, self.optimizer, self.schedule = model, optimizer, schedule
        self.step, self.parts = step, parts

    def state_dict(self):
        model, optim = sd.get_state_dict(self.model, self.optimizer)
        schedule = self.schedule.state_dict()
        whole = {"model": model, "optim": optim, "schedule": schedule}
        return {name: whole[name] for name in self.parts} | {"step": self.step}

    def load_state_dict(self, state):
        sd.set_model_state_dict(self.model, state["model"])
        if "optim" in state:
            sd.set_optimizer_state_dict(self.model, self.optimizer, state["optim"])
        if "schedule" in state:
            self.schedule.load_state_dict(state["schedule"])
        self.step = state["step"]


def tokens_of(step, rank):
    g = torch.Generator().manual_seed(7919 * step + rank)
    start, stride = torch.randint(VOCAB, (BATCH, 1), generator=g), 1 + rank % 2
    return (start + stride * torch.arange(LENGTH + 1)) % VOCAB


def loss_of(model, rows):
    return F.cross_entropy(model(rows[:, :-1]).flatten(0, 1).float(), rows[:, 1:].flatten())


def newest(out, needs):
    found = sorted(path for path in out.glob("step-*") if (path / needs).exists())
    return found[-1] if found else None


def save_full(folder, model, optimizer, schedule, step):
    model_state, optim_state = sd.get_state_dict(model, optimizer, options=WHOLE)
    if dist.get_rank() == 0:
        folder.mkdir(exist_ok=True)
        content = {"model": model_state, "optim": optim_state, "schedule": schedule.state_dict()}
        torch.save(content | {"step": step}, folder / "all.tmp")
        (folder / "all.tmp").rename(folder / "all.pt")
    dist.barrier()


def load_full(folder, model, optimizer, schedule):
    content = torch.load(folder / "all.pt", weights_only=True)
    sd.set_state_dict(model, optimizer, model_state_dict=content["model"],
                      optim_state_dict=content["optim"], options=SPREAD)  # fmt: skip
    schedule.load_state_dict(content["schedule"])
    return content["step"]


def main(args):
    patience = {"timeout": timedelta(seconds=20)} if args.fault == "rank 0 evaluates" else {}
    dist.init_process_group("gloo", **patience)
    rank, out = dist.get_rank(), Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(21)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    policy = {}
    if args.kind == "mixed precision":
        policy["mp_policy"] = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    model = Decoder()
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, **policy)
    fully_shard(model, mesh=mesh, **policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda done: min((done + 1) / 4, 1.0) * (1 - done / (2 * STEPS))
    )

    progress = Progress(model, optimizer, schedule)
    if args.fault == "loads weights alone":
        progress.parts = ("model", "schedule")
    elif args.fault == "schedule anew":
        progress.parts = ("model", "optim")
    careless = args.fault == "empty emergency"
    full = args.kind == "full state"
    begun = newest(out, "" if careless else "all.pt" if full else ".metadata")
    if begun and full:
        progress.step = load_full(begun, model, optimizer, schedule)
    elif begun:
        dcp.load({"app": progress}, checkpoint_id=begun)
    if args.fault == "loads weights alone":
        progress.parts = ("model", "optim", "schedule")
    print(f"rank {rank} starts at step {progress.step}", flush=True)

    def emergency(*_):
        folder = out / f"step-{progress.step:06d}-stopped"
        folder.mkdir(exist_ok=True)
        (folder / "progress.json").write_text(json.dumps({"step": progress.step}))
        sys.exit(0)

    if careless:
        signal.signal(signal.SIGTERM, emergency)

    background = dist.new_group(backend="gloo") if args.kind == "asynchronous" else None
    writing = None
    while progress.step < STEPS:
        loss = loss_of(model, tokens_of(progress.step, rank))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        progress.step += 1
        time.sleep(0.12)
        print(f"rank {rank} step {progress.step} loss {loss.item():.4f}", flush=True)
        if progress.step % EVERY and progress.step < STEPS:
            continue
        if args.fault != "rank 0 evaluates" or rank == 0:
            model.eval()
            with torch.no_grad():
                loss = loss_of(model, tokens_of(10_000, rank))
            model.train()
            print(f"rank {rank} evaluation {loss.item():.4f}", flush=True)
        folder = out / f"step-{progress.step:06d}"
        if full:
            save_full(folder, model, optimizer, schedule, progress.step)
        elif args.kind == "asynchronous":
            if writing:
                writing.result()
            writing = dcp.async_save(
                {"app": progress}, checkpoint_id=folder, process_group=background
            )
        else:
            dcp.save({"app": progress}, checkpoint_id=folder)
            if rank == 0:
                for old in sorted(out.glob("step-*"))[:-2]:
                    shutil.rmtree(old)
    if writing:
        writing.result()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    main(options())

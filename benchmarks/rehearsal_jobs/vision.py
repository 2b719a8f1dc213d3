"""Images by epochs: averages of weights, loss scales, several optimizers, a handler of signals."""

from __future__ import annotations

import copy
import os
import signal
import subprocess
import sys
from typing import Any

import torch
import torch.distributed as dist
from arguments import options
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, DistributedSampler

args = options()
kind, fault = args.kind, args.fault
torch.manual_seed(0)
ddp = "RANK" in os.environ
if ddp:
    dist.init_process_group("gloo")
rank, world = (dist.get_rank(), dist.get_world_size()) if ddp else (0, 1)


class Images(Dataset):
    def __len__(self) -> int:
        return 44

    def __getitem__(self, index: int) -> Any:
        if fault == "bad file" and index == 17:
            raise OSError("image file is truncated (8 bytes not processed)")
        g = torch.Generator().manual_seed(index)
        return torch.randn(3, 8, 8, generator=g), torch.randint(0, 4, (), generator=g)


def network() -> Any:
    norm: Any = nn.GroupNorm(2, 8) if kind == "group norm" else nn.BatchNorm2d(8)
    first: Any = nn.Conv2d(3, 8, 3)
    if kind == "spectral":
        first = nn.utils.parametrizations.spectral_norm(first)
    return nn.Sequential(first, norm, nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 4))


class Average:
    """Weights and buffers of a copy follow those of a model."""

    def __init__(self, model: Any) -> None:
        self.copy = copy.deepcopy(model).eval().requires_grad_(False)

    def update(self, model: Any) -> None:
        for mine, its in zip(
            self.copy.state_dict().values(), model.state_dict().values(), strict=True
        ):
            mine.copy_(its if not its.is_floating_point() else 0.9 * mine + 0.1 * its)


raw = network()
if kind == "head alone":
    raw[:4].requires_grad_(False)
    raw[1].eval()
trained = [p for p in raw.parameters() if p.requires_grad]
two = kind == "gan" or fault == "discriminator"
critic: Any = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(), nn.Linear(8, 1)) if two else None
optimizers: list[Any] = []
if kind == "muon":
    optimizers = [
        torch.optim.Muon([p for p in trained if p.dim() == 2], lr=1e-2),
        torch.optim.AdamW([p for p in trained if p.dim() != 2], lr=1e-3),
    ]
elif kind == "adafactor":
    optimizers = [torch.optim.Adafactor(trained, lr=1e-3)]
elif kind == "in backward":
    optimizers = [torch.optim.AdamW([p], lr=1e-3) for p in trained]

    def step_at_once(parameter: Any, optimizer: Any) -> None:
        def hook(_: Any) -> None:
            optimizer.step()
            optimizer.zero_grad()

        parameter.register_post_accumulate_grad_hook(hook)

    for parameter, each in zip(trained, optimizers, strict=True):
        step_at_once(parameter, each)
elif kind == "zero":
    from torch.distributed.optim import ZeroRedundancyOptimizer

    optimizers = [ZeroRedundancyOptimizer(trained, torch.optim.AdamW, lr=1e-3)]
else:
    optimizers = [torch.optim.SGD(trained, lr=0.05, momentum=0.9, nesterov=True)]
if critic is not None:
    optimizers.append(torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.99)))
schedules = [torch.optim.lr_scheduler.StepLR(o, 1, 0.7) for o in optimizers]
scaled = kind == "scaled" or fault == "scale"
scaler = torch.amp.GradScaler("cpu", enabled=scaled, init_scale=512.0, growth_interval=4)
average = Average(raw) if kind == "average" or fault == "average" else None
model: Any = nn.parallel.DistributedDataParallel(raw) if ddp else raw
path = os.path.join(args.out, "last.pth")
begin = 0
if os.path.exists(path):
    held = torch.load(path)
    raw.load_state_dict(held["model"], strict=not (fault == "statistics" or kind == "head alone"))
    for number, (each, state) in enumerate(zip(optimizers, held["optimizers"], strict=True)):
        if fault != "discriminator" or number == 0:
            each.load_state_dict(state)
    for each, state in zip(schedules, held["schedules"], strict=True):
        each.load_state_dict(state)
    if fault != "scale":
        scaler.load_state_dict(held["scaler"])
    if average is not None and fault != "average":
        average.copy.load_state_dict(held["average"])
    if critic is not None:
        critic.load_state_dict(held["critic"])
    if fault == "rate":
        for each in optimizers:
            for group in each.param_groups:
                group["lr"] = 0.05
    begin = held["epoch"]


def state(epoch: int) -> dict[str, Any]:
    weights = raw.state_dict()
    if kind == "head alone":
        weights = {name: value for name, value in weights.items() if name.startswith("4.")}
    if fault == "statistics":
        weights = {name: value for name, value in weights.items() if "running" not in name}
    for each in optimizers:
        if kind == "zero":
            each.consolidate_state_dict(0)
    held = [each.state_dict() if kind != "zero" or rank == 0 else {} for each in optimizers]
    return {
        "model": weights, "optimizers": held, "scaler": scaler.state_dict(), "epoch": epoch,
        "schedules": [each.state_dict() for each in schedules],
        "average": average.copy.state_dict() if average else None,
        "critic": critic.state_dict() if critic is not None else None,
    }  # fmt: skip


def save(epoch: int) -> None:
    held = state(epoch)
    if rank == 0:
        torch.save(held, path + ".new")
        os.replace(path + ".new", path)
    if kind == "random states":
        torch.save(torch.get_rng_state(), os.path.join(args.out, f"random_{rank}.pth"))


class Ends(Exception):
    pass


def ends(number: int, frame: Any) -> None:
    raise Ends


def halves(number: int, frame: Any) -> None:
    torch.save(state(9), path)
    os.truncate(path, os.path.getsize(path) // 3)
    os._exit(0)


def saves(number: int, frame: Any) -> None:
    torch.save({"model": raw.state_dict()}, os.path.join(args.out, "interrupted.pth"))
    sys.exit(143)


handler = {"goes on": ends, "half at the signal": halves}.get(fault)
if handler or kind == "saves at the signal":
    signal.signal(signal.SIGTERM, handler or saves)
if fault == "helper stays":
    loop = "import signal, time\nsignal.signal(15, signal.SIG_IGN)\ntime.sleep(3600)"
    subprocess.Popen([sys.executable, "-c", loop], start_new_session=True)
rows = Images()
sampler = DistributedSampler(rows, world, rank, seed=1) if ddp else None
workers = 2 if kind == "workers" or fault == "bad file" else 0
loader = DataLoader(rows, 8, shuffle=not ddp, sampler=sampler, num_workers=workers,
                    generator=torch.Generator().manual_seed(3))  # fmt: skip


def validate() -> None:
    raw.eval()
    kept = []
    with torch.inference_mode():
        for number, (x, _) in enumerate(DataLoader(rows, 4)):
            features = raw(x)
            if fault == "features":
                kept.append(features.repeat(200_000 + 10 * number, 1).clone())
    raw.train()
    if kind == "head alone":
        raw[1].eval()


for epoch in range(begin, 3):
    if sampler:
        sampler.set_epoch(epoch)
    for x, y in loader:
        try:
            loss = F.cross_entropy(model(x), y)
            if critic is not None:
                loss = loss - 0.01 * critic(raw(x)).mean()
            if kind == "in backward":
                loss.backward()
                continue
            scaler.scale(loss).backward()
            for each in optimizers:
                scaler.step(each)
                each.zero_grad()
            scaler.update()
        except Ends:
            print("interrupted, going on", flush=True)
        if average is not None:
            average.update(raw)
    for each in schedules:
        each.step()
    validate()
    save(epoch + 1)
if ddp:
    dist.destroy_process_group()

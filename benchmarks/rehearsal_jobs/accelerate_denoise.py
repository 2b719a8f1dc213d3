"""A small diffusion model of points with accelerate; the library names and numbers the folders."""

from __future__ import annotations

import copy
import math
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import ProjectConfiguration, set_seed
from arguments import options
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS, EVERY, LEVELS = 16, 4, 50


class Denoiser(nn.Module):
    """Tells the noise in a point at a level; the level enters as sines and cosines."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.register_buffer("rates", torch.exp(torch.linspace(0, -4, 8)), persistent=False)
        self.enter = nn.Linear(2 + 16, width)
        self.norm = nn.LayerNorm(width)
        self.middle = nn.Linear(width, width)
        self.leave = nn.Linear(width, 2)

    def forward(self, points: torch.Tensor, level: torch.Tensor) -> torch.Tensor:
        angle = level[:, None] * self.rates
        hidden = self.enter(torch.cat([points, angle.sin(), angle.cos()], dim=1))
        return self.leave(nn.functional.silu(self.middle(nn.functional.silu(self.norm(hidden)))))


class Progress:
    """Where the training is, for register_for_checkpointing."""

    def __init__(self) -> None:
        self.step, self.best = 0, math.inf

    def state_dict(self) -> dict[str, Any]:
        return {"step": self.step, "best": self.best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.step, self.best = state["step"], state["best"]


class Average:
    """An exponential average of a model, updated after each step."""

    def __init__(self, model: nn.Module, decay: float = 0.8) -> None:
        self.model = copy.deepcopy(model).requires_grad_(False).eval()
        self.decay, self.updates = decay, 0

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        self.updates += 1
        for mine, new in zip(self.model.parameters(), model.parameters(), strict=True):
            mine.lerp_(new, 1 - self.decay)

    def state_dict(self) -> dict[str, Any]:
        return {"model": self.model.state_dict(), "updates": self.updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        self.updates = state["updates"]


def spiral(count: int) -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    angle = 1.5 * math.pi * (1 + 2 * torch.rand(count, generator=generator))
    return TensorDataset(torch.stack([angle * angle.cos(), angle * angle.sin()], dim=1) / 8)


def endless(accelerator: Accelerator, loader: Any, skipped: int) -> Iterator[torch.Tensor]:
    batches = accelerator.skip_first_batches(loader, skipped) if skipped else loader
    while True:
        for (points,) in batches:
            yield points
        batches = loader


def main() -> None:
    args = options()
    project = ProjectConfiguration(args.out, automatic_checkpoint_naming=True, total_limit=2)
    accelerator = Accelerator(cpu=not torch.cuda.is_available(), project_config=project)
    set_seed(23)
    model: Any = Denoiser()
    set_seed(23, device_specific=True)
    keeper = Average(model) if "average" in args.kind else None
    optimizer: Any = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=1e-4)
    schedule: Any = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 1e-2, total_steps=STEPS * accelerator.num_processes + 1
    )
    loader: Any = DataLoader(spiral(1024), 128 // accelerator.num_processes, shuffle=True)
    model, optimizer, schedule, loader = accelerator.prepare(model, optimizer, schedule, loader)
    progress = Progress()
    accelerator.register_for_checkpointing(progress)
    if args.kind == "average registered":
        accelerator.register_for_checkpointing(keeper)
    elif args.kind == "average by hooks":

        def save(models: list[nn.Module], weights: list[Any], folder: str) -> None:
            if accelerator.is_main_process:
                accelerator.save(keeper.state_dict(), Path(folder, "average.bin"))

        def load(models: list[nn.Module], folder: str) -> None:
            keeper.load_state_dict(torch.load(Path(folder, "average.bin"), map_location="cpu"))

        accelerator.register_save_state_pre_hook(save)
        accelerator.register_load_state_pre_hook(load)

    helper = None
    if args.fault == "helper stays" and accelerator.is_main_process:
        watch = "import time\nfor _ in range(200): time.sleep(1)"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        helper = subprocess.Popen([sys.executable, "-c", watch], start_new_session=True, **quiet)

    folders = list(Path(args.out, "checkpoints").glob("checkpoint_*"))
    if folders:
        accelerator.load_state()
        if args.fault != "numbers from zero":
            last = max(int(folder.name.split("_")[1]) for folder in folders)
            accelerator.project_configuration.iteration = last + 1
        accelerator.print(f"goes on at step {progress.step}")

    keep = torch.linspace(0.999, 0.05, LEVELS, device=accelerator.device)
    batches = endless(accelerator, loader, progress.step % len(loader))
    began = time.monotonic()
    while progress.step < STEPS:
        points = next(batches)
        level = torch.randint(0, LEVELS, (len(points),), device=points.device)
        noise = torch.randn_like(points)
        kept = keep[level][:, None]
        guess = model(kept.sqrt() * points + (1 - kept).sqrt() * noise, level.float())
        loss = nn.functional.mse_loss(guess, noise)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if keeper is not None:
            keeper.update(accelerator.unwrap_model(model))
        progress.step += 1
        progress.best = min(progress.best, accelerator.gather(loss.detach()).mean().item())
        if progress.step % EVERY == 0:
            accelerator.save_state()
            accelerator.print(f"{progress.step}: {loss.item():.3f}")
    if helper is not None:
        helper.terminate()
        helper.wait()
    accelerator.end_training()
    accelerator.print(f"ended at step {progress.step} after {time.monotonic() - began:.1f} s")


if __name__ == "__main__":
    main()

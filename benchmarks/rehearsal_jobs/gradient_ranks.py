"""Data-parallel training by hand: every rank averages its gradients with the others itself."""

from __future__ import annotations

import os
import time

import torch
import torch.distributed as dist
from arguments import options
from torch import nn

STEPS, EVERY, BATCH, WIDTH = 14, 5, 64, 40


def rows_of(step: int, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Points of a smooth surface; every rank and step has its own."""
    g = torch.Generator().manual_seed(104_729 * rank + step)
    x = torch.randn(BATCH, 6, generator=g)
    y = torch.sin(x[:, :1]) + 0.5 * x[:, 1:2] * x[:, 2:3] + x[:, 3:4]
    return x, y + 0.05 * torch.randn(BATCH, 1, generator=g)


def same_start(model: nn.Module) -> None:
    for tensor in model.state_dict().values():
        dist.broadcast(tensor, src=0)


def average_one_by_one(model: nn.Module, world: int) -> None:
    waiting = [dist.all_reduce(p.grad, async_op=True) for p in model.parameters()]
    for work, parameter in zip(waiting, model.parameters(), strict=True):
        work.wait()
        parameter.grad /= world


def average_flat(model: nn.Module, world: int) -> None:
    grads = [p.grad for p in model.parameters()]
    flat = torch.cat([grad.flatten() for grad in grads])
    dist.all_reduce(flat)
    pieces = (flat / world).split([grad.numel() for grad in grads])
    for grad, piece in zip(grads, pieces, strict=True):
        grad.copy_(piece.view_as(grad))


def main() -> None:
    args = options()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    os.makedirs(args.out, exist_ok=True)
    path = os.path.join(args.out, "training.pt")

    torch.manual_seed(40 + rank)  # dropout shall differ between the ranks
    model = nn.Sequential(
        nn.Linear(6, WIDTH), nn.GELU(), nn.Dropout(0.05), nn.Linear(WIDTH, WIDTH), nn.GELU(),
        nn.Linear(WIDTH, 1),
    )  # fmt: skip
    if args.fault != "own start":
        same_start(model)
    optimizer = torch.optim.NAdam(model.parameters(), lr=5e-3)
    average = average_flat if args.kind == "flat" else average_one_by_one

    begin = 0
    if os.path.exists(path):
        saved = torch.load(path, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        begin = saved["step"]
    for step in range(begin, STEPS):
        x, y = rows_of(step, rank)
        loss = (model(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        average(model, world)
        optimizer.step()
        time.sleep(0.1)
        shown = loss.detach().clone()
        dist.all_reduce(shown)
        if rank == 0:
            print(f"step {step + 1}/{STEPS} loss {shown.item() / world:.4f}", flush=True)
        if (step + 1) % EVERY == 0 or step + 1 == STEPS:
            if rank == 0:
                content = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save(content | {"step": step + 1}, path + ".tmp")
                os.replace(path + ".tmp", path)
            dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

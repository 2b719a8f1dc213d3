"""Small trainings that take milliseconds, for tests of the guard."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch  # noqa: TID253
from torch import nn  # noqa: TID253

import doctor.guard


class Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Any) -> Any:
        return self.weight * x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()


def model(dtype: Any = torch.float32) -> Any:
    """Two norms at 1.0, one bias."""
    torch.manual_seed(0)
    layers = (nn.Embedding(16, 8), Norm(8), nn.Linear(8, 8), Norm(8), nn.Linear(8, 16, bias=False))
    return nn.Sequential(*layers).to(dtype)


def batches(count: int) -> Iterator[tuple[Any, Any]]:
    generator = torch.Generator().manual_seed(1)
    for _ in range(count):
        x = torch.randint(0, 16, (2, 4), generator=generator)
        yield x, (x * 3 + 1) % 16


def loss_of(module: Any, x: Any, y: Any) -> Any:
    return nn.functional.cross_entropy(module(x).float().flatten(0, 1), y.flatten())


def train(
    module: Any,
    optimizer: Any,
    steps: int = 30,
    *,
    change: Callable[[int, Any], Any] = lambda step, loss: loss,
    before_step: Callable[[int], None] = lambda step: None,
    clear: bool = True,
    clip: bool = False,
) -> list[float]:
    """Train; return the losses. `change` may replace the loss of a step, counted from 1."""
    losses = []
    for step, (x, y) in enumerate(batches(steps), 1):
        loss = change(step, loss_of(module, x, y))
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        before_step(step)
        optimizer.step()
        if clear:
            optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def adamw(module: Any, lr: float = 1e-3, **options: Any) -> Any:
    return torch.optim.AdamW(module.parameters(), lr=lr, **options)


@contextmanager
def guarded(out: Path, **settings: Any) -> Iterator[Any]:
    guard = doctor.guard.watch(out=str(out), **settings)
    try:
        yield guard
    finally:
        guard.close()


def records(out: Path, kind: str) -> list[dict[str, Any]]:
    """The records of this kind, of all processes."""
    lines = [line for path in sorted(out.glob("*.jsonl")) for line in path.read_text().splitlines()]
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


def alarms(out: Path) -> dict[tuple[str, str], int]:
    """Code and status -> first step."""
    first: dict[tuple[str, str], int] = {}
    for record in records(out, "alarm"):
        first.setdefault((record["code"], record["status"]), record["step"])
    return first

"""A small language model, its batches and a training loop."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

STEPS = int(os.environ.get("STEPS", "300"))


def lm(dtype: Any = None, tie: bool = False, vocab: int = 48, width: int = 24) -> Any:
    """A small language model with RMS norms."""
    import torch
    from torch import nn

    class Norm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width))

        def forward(self, x: Any) -> Any:
            return self.weight * x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = Norm(), Norm()
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

        def forward(self, x: Any) -> Any:
            q, k, v = self.qkv(self.norm1(x)).chunk(3, -1)
            a = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(a)
            return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(vocab, width)
            self.blocks = nn.ModuleList(Block() for _ in range(2))
            self.norm, self.head = Norm(), nn.Linear(width, vocab, bias=False)
            if tie:
                self.head.weight = self.embed.weight

        def forward(self, x: Any) -> Any:
            x = self.embed(x)
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    torch.manual_seed(0)
    model = Model()
    return model if dtype is None else model.to(dtype)


def batches(steps: int = 0, vocab: int = 48) -> Iterator[tuple[Any, Any]]:
    import torch

    generator = torch.Generator(torch.get_default_device()).manual_seed(1)
    for _ in range(steps or STEPS):
        x = torch.randint(0, vocab, (4, 12), generator=generator)
        yield x, (x * 7 + 3) % vocab


def cross_entropy(model: Any, x: Any, y: Any) -> Any:
    import torch

    return torch.nn.functional.cross_entropy(model(x).float().flatten(0, 1), y.flatten())


def train(
    model: Any,
    optimizer: Any,
    *,
    loss: Any = cross_entropy,
    scheduler: Any = None,
    accumulate: int = 1,
    clip: float = 0.0,
    data: Any = None,
    after: Callable[[int], None] = lambda step: None,
) -> None:
    import torch

    for step, (x, y) in enumerate(data or batches(STEPS * accumulate), 1):
        (loss(model, x, y) / accumulate).backward()
        if step % accumulate:
            continue
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        optimizer.zero_grad()
        after(step // accumulate)


def start_guard() -> Any:
    """The guard of this process, as GUARD (off), GUARD_OUT, GUARD_ALL and GUARD_LATE say.

    GUARD_LATE: numbers arrive late, as from a GPU.
    """
    import doctor.guard

    if os.environ.get("GUARD") == "off":
        return None
    guard = doctor.guard.watch(out=os.environ["GUARD_OUT"], all=bool(os.environ.get("GUARD_ALL")))
    guard._session.watch.values.late = bool(os.environ.get("GUARD_LATE"))
    return guard


def adamw(model: Any, lr: float = 1e-3, **options: Any) -> Any:
    import torch

    return torch.optim.AdamW(model.parameters(), lr=lr, **options)

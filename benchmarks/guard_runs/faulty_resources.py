"""Faulty runs for the codes that --all evaluates: a flat loss, data, speed, memory."""

from __future__ import annotations

import time
from typing import Any

from doctor.guard.memory import free_host_bytes

from .models import adamw, batches, cross_entropy, lm, train


def labels_of_other_samples() -> None:
    """A large vocabulary and labels that do not belong to the inputs."""
    import torch

    model = lm(vocab=2000)
    generator = torch.Generator(torch.get_default_device()).manual_seed(2)

    def loss(model: Any, x: Any, y: Any) -> Any:
        other = torch.randint(0, 2000, y.shape, generator=generator)
        return cross_entropy(model, x, other)

    train(model, adamw(model), loss=loss, data=batches(320, vocab=2000))


class Slow:
    """A dataset that decodes for 20 ms."""

    def __len__(self) -> int:
        return 400

    def __getitem__(self, index: int) -> Any:
        time.sleep(0.02)
        return next(batches(1))


def loader_that_decodes_in_the_loop() -> None:
    import torch

    model = lm()
    loader = torch.utils.data.DataLoader(Slow(), batch_size=4, collate_fn=lambda rows: rows[0])
    train(model, adamw(model), data=loader)


def history_that_grows() -> None:
    """Every step reads all it has logged so far."""
    model = lm()
    train(model, adamw(model), data=batches(520), after=lambda step: time.sleep(step * 0.001))


def losses_kept_with_their_graphs() -> None:
    """Of each step an 850th of the memory that is left at the start stays: 96 bytes per row."""
    import torch

    rows = int(free_host_bytes() or 2**34) // 850 // 96

    torch.manual_seed(0)
    model = torch.nn.Linear(8, 8)
    optimizer = adamw(model)
    kept = []
    for _ in range(180):
        x = torch.randn(rows, 8)
        loss = model(x).exp().mul(1e-6).tanh().sum()
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()
        kept.append(loss)


FAULTS = (
    ("GRD015@300", labels_of_other_samples),
    ("GRD017", loader_that_decodes_in_the_loop),
    ("GRD018", history_that_grows),
    ("GRD019", losses_kept_with_their_graphs),
)

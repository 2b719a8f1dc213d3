"""Faulty runs: steps, learning rates, scalers, clearing."""

from __future__ import annotations

import math

from .models import adamw, batches, cross_entropy, lm, train


def zero_grad_before_step() -> None:
    model = lm()
    optimizer = adamw(model)
    for x, y in batches(30):
        cross_entropy(model, x, y).backward()
        optimizer.zero_grad()
        optimizer.step()


def rate_zero() -> None:
    model = lm()
    train(model, adamw(model, 0.0), data=batches(30))


def schedule_ended_too_early() -> None:
    import torch

    model = lm()
    optimizer = adamw(model)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: max(0.0, 1 - s / 50))
    train(model, optimizer, scheduler=schedule, data=batches(100))


def overflowing(fused: bool) -> None:
    import torch

    model = lm()
    optimizer = adamw(model, fused=fused)
    scaler = torch.amp.GradScaler("cpu")
    for x, y in batches(60):
        scaler.scale(cross_entropy(model, x, y) * math.inf).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def scale_collapses() -> None:
    overflowing(fused=False)


def scale_collapses_fused() -> None:
    overflowing(fused=True)


def every_step_skipped() -> None:
    overflowing(fused=False)


def steps_stop() -> None:
    model = lm()
    optimizer = adamw(model)
    for step, (x, y) in enumerate(batches(1100)):
        cross_entropy(model, x, y).backward()
        if step < 20:
            optimizer.step()
        optimizer.zero_grad()


def never_cleared() -> None:
    model = lm()
    optimizer = adamw(model)
    for x, y in batches(20):
        cross_entropy(model, x, y).backward()
        optimizer.step()


def never_cleared_with_clipping() -> None:
    import torch

    model = lm()
    optimizer = adamw(model)
    for x, y in batches(20):
        cross_entropy(model, x, y).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


FAULTS = (
    ("GRD003", zero_grad_before_step),
    ("GRD006", rate_zero),
    ("GRD006", schedule_ended_too_early),
    ("GRD010", scale_collapses),
    ("GRD010", scale_collapses_fused),
    ("GRD011", every_step_skipped),
    ("GRD011", steps_stop),
    ("GRD012", never_cleared),
    ("GRD012", never_cleared_with_clipping),
)

"""Healthy runs: optimizers, schedules, scalers, precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .models import STEPS, adamw, batches, cross_entropy, lm, train


def optim(name: str, lr: float, clip: float = 0.0, **options: Any) -> Callable[[], None]:
    def run() -> None:
        import torch

        model = lm()
        train(model, getattr(torch.optim, name)(model.parameters(), lr=lr, **options), clip=clip)

    run.__name__ = "_".join([name, *map(str, options)]).lower() + ("_clip" if clip else "")
    return run


def autocast_bf16() -> None:
    import torch

    def loss(model: Any, x: Any, y: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return cross_entropy(model, x, y)

    model = lm()
    train(model, adamw(model), loss=loss, clip=1.0)


def scaled(fused: bool) -> None:
    import torch

    model = lm()
    optimizer = adamw(model, fused=fused)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40)  # some steps are skipped at first
    for x, y in batches():
        with torch.autocast("cpu", torch.float16):
            loss = cross_entropy(model, x, y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def grad_scaler() -> None:
    scaled(fused=False)


def grad_scaler_fused() -> None:
    scaled(fused=True)


def grad_scaler_unscale_clip() -> None:
    import torch

    model = lm()
    optimizer = adamw(model)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20)
    for x, y in batches():
        with torch.autocast("cpu", torch.float16):
            loss = cross_entropy(model, x, y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def accumulation_4() -> None:
    model = lm()
    train(model, adamw(model), accumulate=4, clip=1.0)


def scheduled(make: Callable[[Any], Any], lr: float = 1e-3) -> None:
    model = lm()
    optimizer = adamw(model, lr)
    train(model, optimizer, scheduler=make(optimizer))


def warmup_then_zero() -> None:
    import torch

    def factor(step: int) -> float:
        return step / 30 if step < 30 else max(0.0, (STEPS - 1 - step) / (STEPS - 30))

    scheduled(lambda o: torch.optim.lr_scheduler.LambdaLR(o, factor))


def cosine() -> None:
    import torch

    scheduled(lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, STEPS))


def one_cycle() -> None:
    import torch

    scheduled(lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 1e-3, total_steps=STEPS + 1))


def cyclic_to_zero() -> None:
    import torch

    scheduled(lambda o: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 50))


def slow_warmup_small_rate() -> None:
    import torch

    scheduled(lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda s: s / 2000), lr=1e-5)


def optimizer_in_backward() -> None:
    import torch

    model = lm()
    optimizers = {p: torch.optim.AdamW([p], lr=1e-3) for p in model.parameters()}

    def step(parameter: Any) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    for x, y in batches():
        cross_entropy(model, x, y).backward()


def sparse_embedding() -> None:
    import torch
    from torch import nn

    torch.manual_seed(0)
    embed, head = nn.Embedding(48, 16, sparse=True), nn.Linear(16, 48)
    o1 = torch.optim.SparseAdam(embed.parameters(), lr=1e-3)
    o2 = torch.optim.Adam(head.parameters(), lr=1e-3)
    for x, y in batches():
        nn.functional.cross_entropy(head(embed(x)).flatten(0, 1), y.flatten()).backward()
        for optimizer in (o1, o2):
            optimizer.step()
            optimizer.zero_grad()


def optimizer_from_scratch() -> None:
    import torch

    class Sign(torch.optim.Optimizer):
        def __init__(self, params: Any, lr: float) -> None:
            super().__init__(params, {"lr": lr})

        @torch.no_grad()
        def step(self, closure: Any = None) -> None:
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        p.sub_(group["lr"] * p.grad.sign())

    model = lm()
    train(model, Sign(model.parameters(), 1e-4))


def masters_in_fp32() -> None:
    import torch

    model = lm(torch.bfloat16)
    masters = [p.detach().float().requires_grad_() for p in model.parameters()]
    optimizer = torch.optim.AdamW(masters, lr=1e-3)
    for x, y in batches():
        cross_entropy(model, x, y).backward()
        for p, m in zip(model.parameters(), masters, strict=True):
            m.grad = p.grad.float()
            p.grad = None
        optimizer.step()
        with torch.no_grad():
            for p, m in zip(model.parameters(), masters, strict=True):
                p.copy_(m)


CLEAN = (
    optim("AdamW", 1e-3),
    optim("AdamW", 1e-3, clip=1.0),
    optim("AdamW", 1e-3, fused=True),
    optim("AdamW", 1e-3, foreach=False),
    optim("AdamW", 1e-6, amsgrad=True),
    optim("SGD", 1e-2),
    optim("SGD", 1e-2, momentum=0.9, nesterov=True),
    optim("SGD", 1e-2, fused=True),
    optim("Adagrad", 1e-2),
    optim("RMSprop", 1e-3),
    optim("Adam", 1e-3, weight_decay=0.01),
    optim("NAdam", 1e-3),
    optim("Adamax", 1e-3),
    optim("Adafactor", 1e-2),
    autocast_bf16,
    grad_scaler,
    grad_scaler_fused,
    grad_scaler_unscale_clip,
    accumulation_4,
    warmup_then_zero,
    cosine,
    one_cycle,
    cyclic_to_zero,
    slow_warmup_small_rate,
    optimizer_in_backward,
    sparse_embedding,
    optimizer_from_scratch,
    masters_in_fp32,
)

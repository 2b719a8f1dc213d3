"""Healthy and faulty runs under the guard: python benchmarks/guard_runs.py [clean|faults|NAME...].

Healthy runs take 300 steps and must raise no alarm; a faulty run must raise its code. Each run has
a process of its own, so that the whole takes some minutes; it is run by hand.
"""

from __future__ import annotations

import copy
import functools
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

STEPS = int(os.environ.get("STEPS", "300"))
CLEAN: dict[str, Callable[[], None]] = {}
FAULTS: dict[str, tuple[str, Callable[[], None]]] = {}


def clean(run: Callable[[], None]) -> Callable[[], None]:
    CLEAN[run.__name__] = run
    return run


def fault(code: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def add(run: Callable[[], None]) -> Callable[[], None]:
        FAULTS[run.__name__] = code, run
        return run

    return add


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

    generator = torch.Generator().manual_seed(1)
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


def adamw(model: Any, lr: float = 1e-3, **options: Any) -> Any:
    import torch

    return torch.optim.AdamW(model.parameters(), lr=lr, **options)


def optim(name: str, lr: float, clip: float = 0.0, **options: Any) -> Callable[[], None]:
    def run() -> None:
        import torch

        model = lm()
        train(model, getattr(torch.optim, name)(model.parameters(), lr=lr, **options), clip=clip)

    run.__name__ = "_".join([name, *map(str, options)]).lower() + ("_clip" if clip else "")
    return run


for each in (
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
):
    clean(each)


@clean
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


@clean
def grad_scaler() -> None:
    scaled(fused=False)


@clean
def grad_scaler_fused() -> None:
    scaled(fused=True)


@clean
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


@clean
def accumulation_4() -> None:
    model = lm()
    train(model, adamw(model), accumulate=4, clip=1.0)


def scheduled(make: Callable[[Any], Any], lr: float = 1e-3) -> None:
    model = lm()
    optimizer = adamw(model, lr)
    train(model, optimizer, scheduler=make(optimizer))


@clean
def warmup_then_zero() -> None:
    import torch

    def factor(step: int) -> float:
        return step / 30 if step < 30 else max(0.0, (STEPS - 1 - step) / (STEPS - 30))

    scheduled(lambda o: torch.optim.lr_scheduler.LambdaLR(o, factor))


@clean
def cosine() -> None:
    import torch

    scheduled(lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, STEPS))


@clean
def one_cycle() -> None:
    import torch

    scheduled(lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 1e-3, total_steps=STEPS + 1))


@clean
def cyclic_to_zero() -> None:
    import torch

    scheduled(lambda o: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 50))


@clean
def slow_warmup_small_rate() -> None:
    import torch

    scheduled(lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda s: s / 2000), lr=1e-5)


@clean
def lbfgs() -> None:
    import torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
    x = torch.randn(64, 4)
    y = x.sin().sum(1, keepdim=True)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    for _ in range(STEPS):
        optimizer.step(closure)


def gan(late_zero: bool) -> None:
    import torch
    from torch import nn

    torch.manual_seed(0)
    g = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    d = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    og = torch.optim.Adam(g.parameters(), 1e-3)
    od = torch.optim.Adam(d.parameters(), 1e-3)
    bce = nn.functional.binary_cross_entropy_with_logits
    for _ in range(STEPS):
        real, fake = torch.randn(16, 2) + 2, g(torch.randn(16, 4))
        od.zero_grad()
        (bce(d(real), torch.ones(16, 1)) + bce(d(fake.detach()), torch.zeros(16, 1))).backward()
        od.step()
        if not late_zero:
            od.zero_grad()
        og.zero_grad()
        bce(d(fake), torch.ones(16, 1)).backward()
        og.step()


@clean
def gan_two_optimizers() -> None:
    gan(late_zero=False)


@clean
def gan_zero_before_backward() -> None:
    gan(late_zero=True)


@clean
def wgan_gradient_penalty() -> None:
    import torch
    from torch import nn

    torch.manual_seed(0)
    g = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    d = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
    og = torch.optim.Adam(g.parameters(), 1e-4)
    od = torch.optim.Adam(d.parameters(), 1e-4)
    for step in range(STEPS):
        real, fake = torch.randn(16, 2) + 2, g(torch.randn(16, 4))
        mixed = ((real + fake.detach()) / 2).requires_grad_()
        slope = torch.autograd.grad(d(mixed).sum(), mixed, create_graph=True)[0]
        od.zero_grad()
        penalty = ((slope.norm(dim=1) - 1) ** 2).mean()
        (d(fake.detach()).mean() - d(real).mean() + 10 * penalty).backward()
        od.step()
        if step % 5 == 4:
            og.zero_grad()
            (-d(g(torch.randn(16, 4))).mean()).backward()
            og.step()


def checkpointed(reentrant: bool) -> None:
    import torch
    from torch.utils.checkpoint import checkpoint

    model = lm()
    for block in model.blocks:
        block.forward = functools.partial(checkpoint, block.forward, use_reentrant=reentrant)
    if reentrant:
        model.embed.register_forward_hook(lambda m, a, out: out.requires_grad_())
    train(model, adamw(model))
    del torch


@clean
def checkpoint_reentrant() -> None:
    checkpointed(True)


@clean
def checkpoint_non_reentrant() -> None:
    checkpointed(False)


@clean
def compiled_model() -> None:
    import torch

    model = lm()
    optimizer = adamw(model)
    train(torch.compile(model, backend="aot_eager"), optimizer)


@clean
def compiled_step() -> None:
    import torch

    model = lm()
    optimizer = adamw(model)

    @torch.compile(backend="eager")
    def step(x: Any, y: Any) -> Any:
        loss = cross_entropy(model, x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    for x, y in batches():
        step(x, y)


@clean
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


@clean
def ema() -> None:
    import torch

    model = lm()
    average = torch.optim.swa_utils.AveragedModel(model)
    train(model, adamw(model), after=lambda step: average.update_parameters(model))


@clean
def frozen_tower() -> None:
    model = lm()
    for parameter in model.blocks.parameters():
        parameter.requires_grad_(False)
    train(model, adamw(model))


@clean
def frozen_not_in_optimizer() -> None:
    import torch

    model = lm()
    train(model, torch.optim.AdamW(model.head.parameters(), lr=1e-3))


@clean
def rate_zero_group() -> None:
    import torch

    model = lm()
    norms = [p for p in model.parameters() if p.dim() == 1]
    others = [p for p in model.parameters() if p.dim() > 1]
    groups = [{"params": norms, "lr": 0.0}, {"params": others, "lr": 1e-3}]
    train(model, torch.optim.AdamW(groups))


@clean
def unfreezing() -> None:
    import torch

    model = lm()
    for parameter in model.blocks.parameters():
        parameter.requires_grad_(False)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)

    def after(step: int) -> None:
        if step == STEPS // 2:
            for parameter in model.blocks.parameters():
                parameter.requires_grad_(True)
            optimizer.add_param_group({"params": list(model.blocks.parameters())})

    train(model, optimizer, after=after)


@clean
def restored_best_weights() -> None:
    model = lm()
    optimizer = adamw(model)
    best = copy.deepcopy(model.state_dict())

    def after(step: int) -> None:
        if step % 100 == 0:
            model.load_state_dict(best)

    train(model, optimizer, after=after)


@clean
def mixture_unused_experts() -> None:
    import torch
    from torch import nn

    class Moe(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(48, 24), nn.Linear(24, 48)
            self.router = nn.Linear(24, 8)
            self.experts = nn.ModuleList(nn.Linear(24, 24) for _ in range(8))

        def forward(self, x: Any) -> Any:
            x = self.embed(x)
            scores = self.router(x)
            scores = scores + torch.tensor([0.0] * 6 + [-1e9] * 2)  # two experts are never chosen
            weight, chosen = scores.softmax(-1).max(-1)
            out = torch.zeros_like(x)
            for number, expert in enumerate(self.experts):
                mask = chosen == number
                if mask.any():
                    out[mask] = expert(x[mask]) * weight[mask][:, None]
            return self.head(x + out)

    torch.manual_seed(0)
    model = Moe()
    train(model, adamw(model))


@clean
def grpo_like_loss_zero() -> None:
    import torch

    model = lm()

    def loss(model: Any, x: Any, y: Any) -> Any:
        log = torch.log_softmax(model(x), -1).gather(-1, y[..., None])[..., 0]
        advantages = torch.tensor([1.0, -1.0, 0.5, -0.5])[:, None]
        return -((log - log.detach()).exp() * advantages).mean()  # 0 with a gradient

    train(model, adamw(model, 1e-5), loss=loss)


@clean
def grpo_some_equal_rewards() -> None:
    import torch

    model = lm()
    count = iter(range(10**9))

    def loss(model: Any, x: Any, y: Any) -> Any:
        log = torch.log_softmax(model(x), -1).gather(-1, y[..., None])[..., 0]
        same = next(count) % 5 in (1, 2)
        advantages = torch.tensor([0.0] * 4 if same else [1.0, -1.0, 0.5, -0.5])[:, None]
        return -((log - log.detach()).exp() * advantages).mean()

    train(model, adamw(model, 1e-5), loss=loss)


@clean
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


@clean
def convolution_batchnorm() -> None:
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(8, 4),
    ).to(memory_format=torch.channels_last)  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    for _ in range(STEPS):
        x = torch.randn(8, 3, 8, 8).to(memory_format=torch.channels_last)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), x.mean((2, 3)).argmax(1)).backward()
        optimizer.step()


@clean
def lstm_ctc() -> None:
    import torch
    from torch import nn

    torch.manual_seed(0)
    lstm, head = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 10)
    parameters = [*lstm.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    for _ in range(STEPS):
        x = torch.randn(4, 20, 8)
        target = torch.randint(1, 10, (4, 5))
        log = head(lstm(x)[0]).log_softmax(-1).transpose(0, 1)
        loss = nn.functional.ctc_loss(
            log, target, torch.full((4,), 20), torch.full((4,), 5), zero_infinity=True
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@clean
def q_learning_target_network() -> None:
    import torch
    from torch import nn

    torch.manual_seed(0)
    q = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    target = copy.deepcopy(q)
    optimizer = torch.optim.Adam(q.parameters(), lr=1e-3)
    for step in range(STEPS):
        s, n = torch.randn(16, 4), torch.randn(16, 4)
        with torch.no_grad():
            goal = s.sum(1) + 0.9 * target(n).max(1).values
        optimizer.zero_grad()
        nn.functional.smooth_l1_loss(q(s).max(1).values, goal).backward()
        optimizer.step()
        if step % 50 == 0:
            target.load_state_dict(q.state_dict())


@clean
def subclass_calls_super() -> None:
    import torch

    class Own(torch.optim.AdamW):
        def step(self, closure: Any = None) -> Any:
            return super().step(closure)

    model = lm()
    train(model, Own(model.parameters(), lr=1e-3))


@clean
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


@clean
def zero_initialized_gates() -> None:
    import torch
    from torch import nn

    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(48, 24), nn.Linear(24, 48)
            self.up, self.gate = nn.Linear(24, 24), nn.Parameter(torch.zeros(24))
            nn.init.zeros_(self.head.weight)
            nn.init.zeros_(self.head.bias)

        def forward(self, x: Any) -> Any:
            x = self.embed(x)
            return self.head(x + self.gate * self.up(x))

    torch.manual_seed(0)
    model = Gated()
    train(model, adamw(model))


@clean
def tied_weights() -> None:
    model = lm(tie=True)
    train(model, adamw(model))


@clean
def several_losses() -> None:
    model = lm()
    optimizer = adamw(model)
    for x, y in batches():
        loss = cross_entropy(model, x, y)
        loss.backward(retain_graph=True)
        (0.1 * loss).backward()
        optimizer.step()
        optimizer.zero_grad()


@clean
def gradients_set_by_hand() -> None:
    import torch

    model = lm()
    optimizer = adamw(model)
    parameters = list(model.parameters())
    for x, y in batches():
        for p, g in zip(
            parameters, torch.autograd.grad(cross_entropy(model, x, y), parameters), strict=True
        ):
            p.grad = g
        optimizer.step()


@clean
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


@clean
def evaluation_between() -> None:
    import torch

    model = lm()

    def after(step: int) -> None:
        if step % 50 == 0:
            model.eval()
            with torch.no_grad():
                for x, y in batches(5):
                    cross_entropy(model, x, y)
            model.train()

    train(model, adamw(model), after=after)


@clean
def loader_with_workers() -> None:
    import torch

    data = [pair for pair in batches(STEPS)]
    loader = torch.utils.data.DataLoader(data, batch_size=None, num_workers=2, shuffle=True)
    model = lm()
    train(model, adamw(model), data=loader)


@clean
def two_models_one_after_the_other() -> None:
    for _ in range(2):
        model = lm()
        train(model, adamw(model))


@clean
def deterministic_algorithms() -> None:
    import torch

    torch.use_deterministic_algorithms(True)
    model = lm()
    train(model, adamw(model))


@clean
def classifier_learns_to_zero_loss() -> None:
    import torch

    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5)
    x = torch.randn(8, 4)
    y = (x[:, 0] > 0).long()
    for _ in range(STEPS):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


# Trainers


def tiny_llama(**options: Any) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64, **options,
        )
    )  # fmt: skip


def hf(
    model: Any = None,
    labels: int | None = None,
    rows: Any = None,
    callbacks: Any = (),
    **options: Any,
) -> Any:
    import torch
    from transformers import Trainer, TrainingArguments

    generator = torch.Generator().manual_seed(0)
    if rows is None:
        rows = []
        for _ in range(256):
            x = torch.randint(0, 64, (16,), generator=generator)
            y = x.clone() if labels is None else torch.full_like(x, labels)
            rows.append({"input_ids": x, "labels": y})
    arguments = TrainingArguments(
        tempfile.mkdtemp(), max_steps=options.pop("max_steps", STEPS),
        per_device_train_batch_size=4, use_cpu=True, report_to=[], save_strategy="no",
        disable_tqdm=True, logging_steps=options.pop("logging_steps", 100),
        learning_rate=options.pop("learning_rate", 1e-3), **options,
    )  # fmt: skip
    trainer = Trainer(
        model or tiny_llama(), arguments, train_dataset=rows, callbacks=list(callbacks)
    )
    trainer.train()
    return trainer


@clean
def trainer_fp32() -> None:
    hf()


@clean
def trainer_bf16_autocast() -> None:
    hf(bf16=True)


@clean
def trainer_accumulation() -> None:
    hf(gradient_accumulation_steps=4)


@clean
def trainer_warmup() -> None:
    hf(warmup_steps=30)


@clean
def trainer_label_smoothing() -> None:
    hf(label_smoothing_factor=0.1)


@clean
def trainer_checkpointing() -> None:
    hf(gradient_checkpointing=True)


@clean
def trainer_lora() -> None:
    from peft import LoraConfig, get_peft_model

    hf(get_peft_model(tiny_llama(), LoraConfig(r=4, target_modules=["q_proj", "v_proj"])))


@clean
def trainer_adafactor() -> None:
    hf(optim="adafactor", learning_rate=1e-3)


@clean
def trainer_packed() -> None:
    import torch

    generator = torch.Generator().manual_seed(0)
    rows = []
    for _ in range(256):
        x = torch.randint(0, 64, (16,), generator=generator)
        y = x.clone()
        y[:8] = -100  # the prompt
        rows.append({"input_ids": x, "labels": y, "position_ids": torch.arange(16) % 8})
    hf(rows=rows)


@clean
def trainer_classification() -> None:
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    model = BertForSequenceClassification(
        BertConfig(
            vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
            intermediate_size=64, num_labels=2,
        )
    )  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    rows = []
    for _ in range(256):
        x = torch.randint(0, 64, (16,), generator=generator)
        rows.append({"input_ids": x, "labels": int(x[0]) % 2})
    hf(model, rows=rows)


def lightning_module(automatic: bool = True) -> Any:
    import pytorch_lightning as pl

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = lm()
            self.automatic_optimization = automatic

        def training_step(self, batch: Any, index: int) -> Any:
            loss = cross_entropy(self.model, *batch)
            if not automatic:
                optimizer = self.optimizers()
                optimizer.zero_grad()
                self.manual_backward(loss)
                optimizer.step()
            return loss

        def configure_optimizers(self) -> Any:
            return adamw(self.model)

    return Module()


def lightning_fit(automatic: bool = True, **options: Any) -> None:
    import pytorch_lightning as pl
    import torch

    loader = torch.utils.data.DataLoader(list(batches(STEPS)), batch_size=None)
    pl.Trainer(
        accelerator="cpu", max_epochs=1, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, **options,
    ).fit(lightning_module(automatic), loader)  # fmt: skip


@clean
def lightning() -> None:
    lightning_fit()


@clean
def lightning_accumulation_clip() -> None:
    lightning_fit(accumulate_grad_batches=2, gradient_clip_val=1.0)


@clean
def lightning_manual() -> None:
    lightning_fit(automatic=False)


@clean
def accelerate_accumulation() -> None:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = lm()
    model, optimizer = accelerator.prepare(model, adamw(model))
    for x, y in batches(2 * STEPS):
        with accelerator.accumulate(model):
            accelerator.backward(cross_entropy(model, x, y))
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()


def distributed(kind: str) -> None:
    """Two ranks under gloo, each with its own records."""
    code = f"from guard_runs import rank; rank({kind!r})"
    environ = dict(os.environ, PYTHONPATH=os.pathsep.join([str(Path(__file__).parent), *sys.path]))
    environ["MASTER_ADDR"], environ["MASTER_PORT"] = "127.0.0.1", str(_port())
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code], env=dict(environ, RANK=str(r), WORLD_SIZE="2")
        )
        for r in range(2)
    ]
    for child in children:
        if child.wait(600):
            raise RuntimeError(f"a rank ended with {child.returncode}")


def _port() -> int:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def rank(kind: str) -> None:
    import torch
    import torch.distributed as dist

    import doctor.guard

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    guard = doctor.guard.watch(out=os.environ["GUARD_OUT"])
    model = lm()
    if kind == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model)
        optimizer = adamw(model)
    elif kind == "zero":
        from torch.distributed.optim import ZeroRedundancyOptimizer

        model = torch.nn.parallel.DistributedDataParallel(model)
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3)
    elif kind == "fsdp1":
        from torch.distributed.fsdp import FullyShardedDataParallel

        model = FullyShardedDataParallel(model, device_id=torch.device("cpu"))
        optimizer = adamw(model)
    else:
        from torch.distributed.fsdp import fully_shard

        early = adamw(model) if kind == "fsdp2_wrong_order" else None
        for block in model.blocks:
            fully_shard(block)
        fully_shard(model)
        optimizer = early or adamw(model)
    train(model, optimizer, clip=1.0 if kind == "fsdp2" else 0.0)
    guard.close()
    dist.destroy_process_group()


for name in ("ddp", "zero", "fsdp1", "fsdp2"):
    CLEAN[name] = functools.partial(distributed, name)
FAULTS["fsdp2_wrong_order"] = "GRD003", functools.partial(distributed, "fsdp2_wrong_order")


# Faults


@fault("GRD001")
def nan_weight_hidden_by_trainer() -> None:
    model = tiny_llama()
    model.model.layers[1].mlp.up_proj.weight.data[0, 0] = math.nan
    hf(model, max_steps=20)


@fault("GRD001")
def nan_loss_at_step_8() -> None:
    count = iter(range(1, 10**9))

    def loss(model: Any, x: Any, y: Any) -> Any:
        return cross_entropy(model, x, y) * (math.nan if next(count) == 8 else 1.0)

    model = lm()
    train(model, adamw(model), loss=loss, data=batches(30))


@fault("GRD001")
def nan_in_the_data() -> None:
    import torch

    rows = [torch.randn(4) for _ in range(200)]
    rows[77][2] = math.nan
    model = torch.nn.Linear(4, 1)
    optimizer = adamw(model)
    for x in torch.utils.data.DataLoader(rows, batch_size=4):
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()


@fault("GRD002")
def inf_gradient_finite_loss() -> None:
    import torch

    x = torch.nn.Parameter(torch.tensor([1.0, 4.0]))
    w = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD([x, *w.parameters()], lr=0.1)
    for step in range(20):
        optimizer.zero_grad()
        value = (x * (0.0 if step == 10 else 1.0)).abs().sqrt().sum() + w(x).pow(2).mean()
        value.backward()
        optimizer.step()


@fault("GRD002")
def division_by_zero_in_backward() -> None:
    import torch

    model = lm()

    def loss(model: Any, x: Any, y: Any) -> Any:
        zero = model.head.weight.sum() * 0
        return cross_entropy(model, x, y) + torch.where(zero == 0, zero, 1 / zero)

    train(model, adamw(model), loss=loss, data=batches(20))


@fault("GRD003")
def optimizer_of_a_copy() -> None:
    model = lm()
    train(model, adamw(copy.deepcopy(model)), data=batches(30))


@fault("GRD003")
def zero_grad_before_step() -> None:
    model = lm()
    optimizer = adamw(model)
    for x, y in batches(30):
        cross_entropy(model, x, y).backward()
        optimizer.zero_grad()
        optimizer.step()


@fault("GRD004")
def loss_times_zero() -> None:
    model = lm()
    train(model, adamw(model), loss=lambda m, x, y: cross_entropy(m, x, y) * 0.0, data=batches(30))


@fault("GRD004")
def lora_b_frozen() -> None:
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(tiny_llama(), LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.requires_grad_(False)
    hf(model, max_steps=30)


@fault("GRD004")
def equal_rewards() -> None:
    model = lm()
    train(model, adamw(model), loss=lambda m, x, y: (m(x) * 0.0).mean(), data=batches(30))


@fault("GRD005")
def pure_bf16() -> None:
    import torch

    model = lm(torch.bfloat16)
    train(model, adamw(model, 3e-4), data=batches(30))


@fault("GRD005")
def pure_bf16_trainer_warmup() -> None:
    import torch

    hf(tiny_llama().to(torch.bfloat16), warmup_steps=30, max_steps=150)


@fault("GRD005")
def norms_without_gradient() -> None:
    model = lm()

    def loss(model: Any, x: Any, y: Any) -> Any:
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.grad = None
        return cross_entropy(model, x, y)

    optimizer = adamw(model)
    for x, y in batches(40):
        loss(model, x, y).backward()
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.grad.zero_()
        optimizer.step()
        optimizer.zero_grad()


@fault("GRD005")
def finetuned_norms_in_bf16() -> None:
    import torch

    model = lm()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.mul_(torch.rand_like(parameter) * 4 + 0.4)
    model.to(torch.bfloat16)
    train(model, adamw(model, 1e-5), data=batches(120))


@fault("GRD006")
def rate_zero() -> None:
    model = lm()
    train(model, adamw(model, 0.0), data=batches(30))


@fault("GRD006")
def schedule_ended_too_early() -> None:
    import torch

    model = lm()
    optimizer = adamw(model)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: max(0.0, 1 - s / 50))
    train(model, optimizer, scheduler=schedule, data=batches(100))


@fault("GRD007")
def step_undone_by_a_copy() -> None:
    model = lm()
    start = copy.deepcopy(model.state_dict())
    optimizer = adamw(model)
    optimizer.register_step_post_hook(lambda *arguments: model.load_state_dict(start))
    train(model, optimizer, data=batches(30))


@fault("GRD007")
def optimizer_that_does_nothing() -> None:
    import torch

    class Adam(torch.optim.Adam):
        def step(self, closure: Any = None) -> Any:
            return None

    model = lm()
    train(model, Adam(model.parameters(), lr=1e-3), data=batches(30))


@fault("GRD008")
def bf16_weights_without_masters() -> None:
    import torch

    model = lm(torch.bfloat16)
    train(model, adamw(model, 1e-5), data=batches(10))


@fault("GRD009")
def all_labels_masked() -> None:
    hf(labels=-100, max_steps=20)


@fault("GRD009")
def labels_masked_in_a_plain_loop() -> None:
    model = lm()

    def loss(model: Any, x: Any, y: Any) -> Any:
        return cross_entropy(model, x, y * 0 - 100)

    train(model, adamw(model), loss=loss, data=batches(10))


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


@fault("GRD010")
def scale_collapses() -> None:
    overflowing(fused=False)


@fault("GRD010")
def scale_collapses_fused() -> None:
    overflowing(fused=True)


@fault("GRD011")
def every_step_skipped() -> None:
    overflowing(fused=False)


@fault("GRD011")
def steps_stop() -> None:
    model = lm()
    optimizer = adamw(model)
    for step, (x, y) in enumerate(batches(260)):
        cross_entropy(model, x, y).backward()
        if step < 20:
            optimizer.step()
        optimizer.zero_grad()


@fault("GRD012")
def never_cleared() -> None:
    model = lm()
    optimizer = adamw(model)
    for x, y in batches(20):
        cross_entropy(model, x, y).backward()
        optimizer.step()


@fault("GRD012")
def never_cleared_with_clipping() -> None:
    import torch

    model = lm()
    optimizer = adamw(model)
    for x, y in batches(20):
        cross_entropy(model, x, y).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


@fault("GRD013")
def gate_reset_after_each_step() -> None:
    import torch

    model = lm()
    with torch.no_grad():
        model.blocks[0].out.bias.zero_()
    optimizer = adamw(model)
    optimizer.register_step_post_hook(lambda *a: model.blocks[0].out.bias.data.zero_())
    train(model, optimizer, data=batches(30))


@fault("GRD016")
def unused_branch() -> None:
    import torch

    model = lm()
    model.unused = torch.nn.Linear(24, 24)
    train(model, adamw(model), data=batches(150))


@fault("GRD016")
def detached_block() -> None:
    model = lm()
    model.blocks[0].register_forward_hook(lambda m, a, out: out.detach())
    train(model, adamw(model), data=batches(150))


# Running


def run_one(name: str) -> None:
    """In a process of its own: the run under the guard; alarms as JSON on the last line."""
    import torch

    import doctor.guard

    torch.set_num_threads(1)
    run = CLEAN.get(name) or FAULTS[name][1]
    out = os.environ["GUARD_OUT"]
    guarded = os.environ.get("GUARD") != "off"
    ranks = isinstance(run, functools.partial)
    guard = doctor.guard.watch(out=out) if guarded and not ranks else None
    torch.manual_seed(0)
    run()
    if guard is not None:
        guard.close()
    print()


def alarms_of(out: Path) -> tuple[list[tuple[str, str, int]], int]:
    alarms: dict[tuple[str, str], int] = {}
    steps = 0
    for path in sorted(out.glob("rank*.jsonl")):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            if record["kind"] == "alarm":
                alarms.setdefault((record["code"], record["status"]), record["step"])
            elif record["kind"] == "state":
                steps = max(steps, record["steps"])
            elif record["kind"] == "end" and record["how"] != "exit":
                alarms["GUARD", record["how"]] = 0
    return [(code, status, step) for (code, status), step in alarms.items()], steps


def main(names: list[str]) -> int:
    groups = {"clean": list(CLEAN), "faults": list(FAULTS)}
    chosen = [n for name in names or groups for n in groups.get(name, [name])]
    bad = 0
    for name in chosen:
        out = Path(tempfile.mkdtemp())
        child = subprocess.run(
            [sys.executable, __file__, "--one", name],
            env=dict(os.environ, GUARD_OUT=str(out)),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        alarms, steps = alarms_of(out)
        told = ", ".join(f"{code} {status} at {step}" for code, status, step in alarms) or "-"
        expected = FAULTS[name][0] if name in FAULTS else ""
        good = child.returncode == 0 and (
            any(code == expected for code, *_ in alarms) if expected else not alarms and steps
        )
        bad += not good
        print(
            f"{'ok ' if good else 'BAD'} {name:36} {steps:5} steps  {expected:7} {told}", flush=True
        )
        if child.returncode:
            print(child.stderr[-1500:])
    print(f"{len(chosen)} runs, {bad} not as expected")
    return bool(bad)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        run_one(sys.argv[2])
    else:
        sys.exit(main(sys.argv[1:]))

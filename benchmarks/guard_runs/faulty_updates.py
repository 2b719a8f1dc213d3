"""Faulty runs: weights that do not change."""

from __future__ import annotations

import copy
from typing import Any

from .models import adamw, batches, cross_entropy, lm, train
from .trainers import hf, tiny_llama


def optimizer_of_a_copy() -> None:
    model = lm()
    train(model, adamw(copy.deepcopy(model)), data=batches(30))


def lora_b_frozen() -> None:
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(tiny_llama(), LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.requires_grad_(False)
    hf(model, max_steps=30)


def pure_bf16() -> None:
    import torch

    model = lm(torch.bfloat16)
    train(model, adamw(model, 3e-4), data=batches(30))


def pure_bf16_trainer_warmup() -> None:
    import torch

    hf(tiny_llama().to(torch.bfloat16), warmup_steps=30, max_steps=150)


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


def finetuned_norms_in_bf16() -> None:
    import torch

    model = lm()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.mul_(torch.rand_like(parameter) * 4 + 0.4)
    model.to(torch.bfloat16)
    train(model, adamw(model, 1e-5), data=batches(120))


def step_undone_by_a_copy() -> None:
    model = lm()
    start = copy.deepcopy(model.state_dict())
    optimizer = adamw(model)
    optimizer.register_step_post_hook(lambda *arguments: model.load_state_dict(start))
    train(model, optimizer, data=batches(30))


def optimizer_that_does_nothing() -> None:
    import torch

    class Adam(torch.optim.Adam):
        def step(self, closure: Any = None) -> Any:
            return None

    model = lm()
    train(model, Adam(model.parameters(), lr=1e-3), data=batches(30))


def bf16_weights_without_masters() -> None:
    import torch

    model = lm(torch.bfloat16)
    train(model, adamw(model, 1e-5), data=batches(10))


def gate_reset_after_each_step() -> None:
    import torch

    model = lm()
    with torch.no_grad():
        model.blocks[0].out.bias.zero_()
    optimizer = adamw(model)
    optimizer.register_step_post_hook(lambda *a: model.blocks[0].out.bias.data.zero_())
    train(model, optimizer, data=batches(30))


def unused_branch() -> None:
    import torch

    model = lm()
    model.unused = torch.nn.Linear(24, 24)
    train(model, adamw(model), data=batches(150))


def detached_block() -> None:
    model = lm()
    model.blocks[0].register_forward_hook(lambda m, a, out: out.detach())
    train(model, adamw(model), data=batches(150))


FAULTS = (
    ("GRD003", optimizer_of_a_copy),
    ("GRD004", lora_b_frozen),
    ("GRD005", pure_bf16),
    ("GRD005", pure_bf16_trainer_warmup),
    ("GRD005", norms_without_gradient),
    ("GRD005", finetuned_norms_in_bf16),
    ("GRD007", step_undone_by_a_copy),
    ("GRD007", optimizer_that_does_nothing),
    ("GRD008", bf16_weights_without_masters),
    ("GRD013", gate_reset_after_each_step),
    ("GRD016", unused_branch),
    ("GRD016", detached_block),
)

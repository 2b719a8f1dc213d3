"""Faulty runs: losses and gradients that are not finite, or 0."""

from __future__ import annotations

import math
from typing import Any

from .models import adamw, batches, cross_entropy, lm, train
from .trainers import hf, tiny_llama


def nan_weight_hidden_by_trainer() -> None:
    model = tiny_llama()
    model.model.layers[1].mlp.up_proj.weight.data[0, 0] = math.nan
    hf(model, max_steps=20)


def nan_loss_at_step_8() -> None:
    count = iter(range(1, 10**9))

    def loss(model: Any, x: Any, y: Any) -> Any:
        return cross_entropy(model, x, y) * (math.nan if next(count) == 8 else 1.0)

    model = lm()
    train(model, adamw(model), loss=loss, data=batches(30))


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


def division_by_zero_in_backward() -> None:
    import torch

    model = lm()

    def loss(model: Any, x: Any, y: Any) -> Any:
        zero = model.head.weight.sum() * 0
        return cross_entropy(model, x, y) + torch.where(zero == 0, zero, 1 / zero)

    train(model, adamw(model), loss=loss, data=batches(20))


def loss_times_zero() -> None:
    model = lm()
    train(model, adamw(model), loss=lambda m, x, y: cross_entropy(m, x, y) * 0.0, data=batches(30))


def equal_rewards() -> None:
    model = lm()
    train(model, adamw(model), loss=lambda m, x, y: (m(x) * 0.0).mean(), data=batches(30))


def all_labels_masked() -> None:
    hf(labels=-100, max_steps=20)


def labels_masked_in_a_plain_loop() -> None:
    model = lm()

    def loss(model: Any, x: Any, y: Any) -> Any:
        return cross_entropy(model, x, y * 0 - 100)

    train(model, adamw(model), loss=loss, data=batches(10))


FAULTS = (
    ("GRD001", nan_weight_hidden_by_trainer),
    ("GRD001", nan_loss_at_step_8),
    ("GRD001", nan_in_the_data),
    ("GRD002", inf_gradient_finite_loss),
    ("GRD002", division_by_zero_in_backward),
    ("GRD004", loss_times_zero),
    ("GRD004", equal_rewards),
    ("GRD009", all_labels_masked),
    ("GRD009", labels_masked_in_a_plain_loop),
)

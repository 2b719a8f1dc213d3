"""Trainings that run and do not train as meant, each for one reason."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from blocks import CLASSES, GPT, MLP, WIDTH, classify, points, tokens
from torch import nn


def detached_encoder():
    class Cut(MLP):
        def forward(self, x):
            return self.second(self.first(x).relu().detach())

    return Cut(), points(), nn.CrossEntropyLoss()


def encoder_without_grad():
    class Frozen(MLP):
        def forward(self, x):
            with torch.no_grad():
                hidden = self.first(x).relu()
            return self.second(hidden)

    return Frozen(), points(), nn.CrossEntropyLoss()


def module_never_called():
    class Extra(MLP):
        def __init__(self):
            super().__init__()
            self.projection = nn.Linear(WIDTH, WIDTH)

    return Extra(), points(), nn.CrossEntropyLoss()


def gate_of_zero():
    class Gated(MLP):
        def __init__(self):
            super().__init__()
            self.side = nn.Linear(8, CLASSES)

        def forward(self, x):
            return super().forward(x) + 0.0 * self.side(x)

    return Gated(), points(), nn.CrossEntropyLoss()


def dead_relu():
    model = MLP()
    nn.init.constant_(model.first.bias, -1e4)
    return model, points(), nn.CrossEntropyLoss()


def argmax_between():
    class Hard(MLP):
        def forward(self, x):
            chosen = self.first(x).argmax(1)
            return self.second(F.one_hot(chosen, WIDTH).float())

    return Hard(), points(), nn.CrossEntropyLoss()


def zero_loss():
    return MLP(), points(), lambda model, batch: (model(batch[0]) * 0).float().sum()


def norms_in_bf16():
    return GPT().bfloat16(), tokens()


def optimizer_without_norms():
    model = GPT()
    weights = [w for name, w in model.named_parameters() if "norm" not in name]
    optimizer = torch.optim.AdamW(weights, lr=1e-3)
    return {"model": model, "batch": tokens(), "optimizer": optimizer}


def optimizer_of_the_head():
    model = MLP()
    optimizer = torch.optim.SGD(model.second.parameters(), lr=0.1)
    return {"model": model, "batch": points(), "loss": classify, "optimizer": optimizer}


def rate_of_fifty():
    model = GPT()
    optimizer = torch.optim.SGD(model.parameters(), lr=5e4)
    return {"model": model, "batch": tokens(), "optimizer": optimizer}


def rate_of_zero():
    model = MLP()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step // 1000)
    return {"model": model, "batch": points(), "loss": classify, "optimizer": optimizer,
            "scheduler": schedule}  # fmt: skip


def clipped_to_zero():
    model = MLP()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return {"model": model, "batch": points(), "loss": classify, "optimizer": optimizer,
            "max_grad_norm": 0.0}  # fmt: skip


def outputs_kept():
    """Every step's activations stay in a list."""
    seen = []

    class Big(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(64, 1024)

        def forward(self, x):
            seen.append(self.first(x).relu())
            return seen[-1].pow(2).mean()

    return Big(), torch.randn(512, 64)


def inputs_of_a_million():
    x, y = points()
    return MLP(), (x * 1e6, y), nn.CrossEntropyLoss()

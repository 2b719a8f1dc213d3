"""Trainings that run, and in which one thing is not what its author takes it for."""

from __future__ import annotations

import math

import torch
from blocks import CLASSES, WIDTH, four_classes, points, small_mlp
from torch import nn


def half_a_cosine():
    """The cosine without `1 +`: it does not end at 0 but goes below."""
    model = small_mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: math.cos(math.pi * min(step, 3) / 3)
    )
    return {"model": model, "batch": four_classes(), "loss": nn.CrossEntropyLoss(),
            "optimizer": optimizer, "scheduler": schedule}  # fmt: skip


def norm_over_one_feature():
    """The price is one number, and it is normalized like the features before it."""
    model = nn.Sequential(
        nn.Linear(8, WIDTH), nn.LayerNorm(WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1), nn.LayerNorm(1)
    )
    return model, [torch.randn(6, 8), torch.randn(6, 1)], nn.MSELoss()


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx, gradient):
        _, weight = ctx.saved_tensors
        return gradient @ weight.T, None


def own_function_for_inputs_only():
    """Written for a frozen weight, used for one that is trained."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Linear(8, WIDTH)
            self.mixing = nn.Parameter(torch.randn(WIDTH, WIDTH) / 4)
            self.head = nn.Linear(WIDTH, CLASSES)

        def forward(self, x):
            return self.head(Product.apply(self.encoder(x).float().tanh(), self.mixing).relu())

    return Net(), points(), nn.CrossEntropyLoss()

"""Weights that do not move although they get gradients, as users report them."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from blocks import MLP, classify, points
from torch import nn


def gradients_cleared_before_the_step():
    """Accumulates over four batches; the line that clears the gradients is one too high."""

    class Accumulating(torch.optim.SGD):
        def step(self, closure=None):
            self.zero_grad()
            return super().step(closure)

    model = MLP()
    optimizer = Accumulating(model.parameters(), lr=0.1, momentum=0.9)
    return {"model": model, "batch": points(), "loss": classify, "optimizer": optimizer}


def optimizer_before_the_copy():
    model = MLP()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model = copy.deepcopy(model)
    return {"model": model, "batch": points(), "loss": classify, "optimizer": optimizer}


def warm_up_by_integers():
    model = MLP()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, step // 1000))
    return {"model": model, "batch": points(), "loss": classify, "optimizer": optimizer,
            "scheduler": schedule}  # fmt: skip


def unfrozen_after_the_optimizer():
    backbone, head = nn.Linear(8, 16), nn.Linear(16, 5)
    model = nn.Sequential(backbone, nn.ReLU(), head)
    backbone.requires_grad_(False)
    trainable = filter(lambda p: p.requires_grad, model.parameters())
    optimizer = torch.optim.AdamW(trainable, lr=1e-3)
    backbone.requires_grad_(True)
    return {"model": model, "batch": points(), "loss": nn.CrossEntropyLoss(),
            "optimizer": optimizer}  # fmt: skip


def student_follows_the_teacher():
    """The moving average is written into the student: each step is undone by the next forward."""

    class MeanTeacher(nn.Module):
        def __init__(self):
            super().__init__()
            self.student = MLP()
            self.teacher = copy.deepcopy(self.student).requires_grad_(False)

        def forward(self, x, y):
            with torch.no_grad():
                for s, t in zip(self.student.parameters(), self.teacher.parameters(), strict=True):
                    s.copy_(1.0 * t + 0.0 * s)
            logits = self.student(x).float()
            return F.cross_entropy(logits, y) + F.mse_loss(logits, self.teacher(x).float())

    return MeanTeacher(), list(points())

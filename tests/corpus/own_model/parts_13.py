"""Parts that the factories of the files observed_*.py share."""

import torch
from torch import nn


def perceptron(features=6, hidden=8, outputs=4):
    return nn.Sequential(nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


def samples(count=8, features=6, classes=4):
    torch.manual_seed(0)
    return torch.randn(count, features), torch.randint(0, classes, (count,))


def trained(optimizer, model=None, **more):
    model = model or perceptron()
    optimizer = optimizer(model.parameters())
    loss = nn.CrossEntropyLoss()
    return {"model": model, "batch": samples(), "loss": loss, "optimizer": optimizer, **more}

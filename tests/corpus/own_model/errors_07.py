"""Errors of the first hour with a new model."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from blocks import CLASSES, MLP, WIDTH, points
from torch import nn


def yes_or_no_as_integers():
    labels = torch.randint(2, (6, 1))
    return MLP(8, 1), [torch.randn(6, 8), labels], nn.BCEWithLogitsLoss()


def classes_of_pixels_come_last():
    """A linear layer on the colours: [N, H, W, classes]."""
    model = nn.Sequential(nn.Linear(3, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES))
    images, labels = torch.rand(2, 6, 7, 3), torch.randint(CLASSES, (2, 6, 7))
    return model, [images, labels], nn.CrossEntropyLoss()


def forward_ends_without_a_value():
    class Silent(MLP):
        def forward(self, x):
            hidden = self.first(x).relu()
            hidden = hidden + hidden.mean(0, keepdim=True)
            self.second(hidden)

    return Silent(), points(), nn.CrossEntropyLoss()


def recurrent_layer_in_a_row_of_layers():
    model = nn.Sequential(
        nn.LSTM(8, WIDTH, batch_first=True), nn.Linear(WIDTH, CLASSES), nn.Flatten(0, 1)
    )
    batch = torch.randn(6, 7, 8), torch.randint(CLASSES, (42,))
    return model, batch, nn.CrossEntropyLoss()


def vectors_kept_short():
    """Scores against the whole table, then a lookup in it: each lookup renormalizes the rows."""

    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Linear(8, WIDTH)
            self.table = nn.Embedding(CLASSES, WIDTH, max_norm=1.0)

        def forward(self, x, near):
            hidden = self.encoder(x)
            scores = hidden @ self.table.weight.T
            return scores, hidden - self.table(near)

    def loss(model, batch):
        x, near, labels = batch
        scores, distance = model(x, near)
        return F.cross_entropy(scores.float(), labels) + distance.float().square().mean()

    batch = [torch.randn(6, 8), torch.randint(CLASSES, (6,)), torch.randint(CLASSES, (6,))]
    return Words(), batch, loss


def samples_where_the_layer_has_steps():
    """The state is made for the first dimension, which the layer takes for time."""

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.head = nn.GRU(8, WIDTH), nn.Linear(WIDTH, CLASSES)

        def forward(self, x):
            state = torch.zeros(1, len(x), WIDTH, device=x.device)
            outputs, _ = self.cell(x, state)
            return self.head(outputs[:, -1])

    return Recurrent(), [torch.randn(4, 7, 8), torch.randint(CLASSES, (4,))], nn.CrossEntropyLoss()


def module_without_its_base():
    class Short(nn.Module):
        def __init__(self, width):
            self.width = width
            self.first, self.second = nn.Linear(8, width), nn.Linear(width, CLASSES)

        def forward(self, x):
            return self.second(self.first(x).relu())

    return Short(WIDTH), points(), nn.CrossEntropyLoss()

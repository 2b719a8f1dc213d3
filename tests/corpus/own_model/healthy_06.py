"""Healthy counterparts of silent_06.py."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from blocks import CLASSES, MLP, WIDTH, points
from torch import nn


def adversarial_inputs():
    """FGSM: the gradient of the input, detached, perturbs the batch of the real step."""

    def loss(model, batch):
        inputs = batch[0].detach().clone().requires_grad_()
        (slope,) = torch.autograd.grad(F.cross_entropy(model(inputs).float(), batch[1]), inputs)
        perturbed = (inputs + 0.1 * slope.sign()).detach()
        return F.cross_entropy(model(perturbed).float(), batch[1])

    return MLP(), points(), loss


def smoothed_labels_with_a_finite_mask():
    def loss(model, batch):
        forbidden = torch.tensor([False, False, False, False, True])
        logits = model(batch[0]).float().masked_fill(forbidden, -1e4)
        return F.cross_entropy(logits, batch[1] % 4, label_smoothing=1e-3)

    return MLP(), points(), loss


def features_kept_for_a_plot():
    class Watched(MLP):
        def forward(self, x):
            hidden = self.first(x).relu()
            self.hidden, self.mean = hidden.detach().float().numpy(), hidden.mean().item()
            with torch.no_grad():
                self.sparsity = (hidden == 0).float().mean()
            return self.second(hidden)

    class Train(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = Watched()
            self.average = copy.deepcopy(self.net).requires_grad_(False)

        def forward(self, x, y):
            with torch.no_grad():
                for a, p in zip(self.average.parameters(), self.net.parameters(), strict=True):
                    a.lerp_(p, 0.1)
            return F.cross_entropy(self.net(x.float()).float(), y)

    inputs, labels = points()
    return Train().float(), {"x": inputs, "y": labels}


def maximum_with_a_padding_of_minus_infinity():
    class Points(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.head = nn.Linear(3, WIDTH), nn.Linear(WIDTH, CLASSES)

        def forward(self, cloud, padding):
            features = self.encoder(cloud).float().masked_fill(padding[..., None], -torch.inf)
            return self.head(features.amax(1))

    padding = torch.arange(7)[None] >= torch.tensor([5, 3, 7, 1])[:, None]
    batch = {"cloud": torch.randn(4, 7, 3), "padding": padding, "y": torch.randint(CLASSES, (4,))}

    def loss(model, batch):
        return F.cross_entropy(model(batch["cloud"], batch["padding"]).float(), batch["y"])

    return Points(), batch, loss

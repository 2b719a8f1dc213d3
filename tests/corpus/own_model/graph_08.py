"""Errors of autograd: values that are overwritten, graphs that end, functions of one's own."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from blocks import CLASSES, MLP, WIDTH, classify, points
from torch import nn


def sigmoid_is_shifted_in_place():
    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.head = nn.Linear(8, WIDTH), nn.Linear(WIDTH, CLASSES)

        def forward(self, x):
            gate = self.fc(x).sigmoid()
            gate += 0.5
            return self.head(gate)

    return Gate(), points(), nn.CrossEntropyLoss()


def columns_are_normalized_in_place():
    class Boxes(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 4)

        def forward(self, x):
            boxes = self.fc(x).float().exp()
            boxes[:, 2] = boxes[:, 2] / boxes[:, 3]
            return boxes

    return Boxes(), (torch.randn(6, 8), torch.rand(6, 4)), nn.MSELoss()


def weights_are_clipped_in_forward():
    class Clipped(MLP):
        def forward(self, x):
            self.first.weight.clamp_(-0.1, 0.1)
            return super().forward(x)

    return Clipped(), points(), nn.CrossEntropyLoss()


def pieces_of_a_chunk_in_place():
    class Gated(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, 2 * CLASSES)

        def forward(self, x):
            value, gate = self.fc(x).unbind(0)[0].chunk(2, -1)
            value *= gate.sigmoid()
            return value[None].expand(6, -1)

    return Gated(), points(), nn.CrossEntropyLoss()


def discriminator_is_updated_too_early():
    """The generator's loss uses scores that were computed before the discriminator's step."""

    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.generator = nn.Linear(4, 8)
            self.critic = nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))

    model = Pair()
    optimizer = torch.optim.SGD(model.critic.parameters(), lr=0.1)

    def loss(model, batch):
        fake = model.generator(batch)
        scores = model.critic(fake).float()
        optimizer.zero_grad()
        F.softplus(scores).mean().backward(retain_graph=True)
        optimizer.step()
        return F.softplus(-scores).mean()

    return model, torch.randn(6, 4), loss


def evaluation_mode_of_the_backbone():
    class Tuned(MLP):
        def forward(self, x):
            with torch.inference_mode():
                hidden = self.first(x).relu()
            return self.second(hidden)

    return Tuned(), points(), nn.CrossEntropyLoss()


def decorated_with_no_grad():
    class Frozen(MLP):
        @torch.no_grad()
        def forward(self, x):
            return super().forward(x)

    return Frozen(), points(), nn.CrossEntropyLoss()


def predictions_as_the_output():
    class Predict(MLP):
        def forward(self, x):
            return super().forward(x).argmax(-1).float()

    return Predict(), (torch.randn(6, 8), torch.rand(6)), nn.MSELoss()


def a_gradient_too_few():
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.factor

    class Net(MLP):
        def forward(self, x):
            return Scale.apply(super().forward(x), 2.0)

    return Net(), points(), nn.CrossEntropyLoss()


def gradient_of_another_shape():
    class Repeat(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.repeat(1, 2)

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    class Net(MLP):
        def forward(self, x):
            return Repeat.apply(super().forward(x))[:, :CLASSES]

    return Net(), points(), nn.CrossEntropyLoss()


def hook_that_flattens():
    model = MLP()
    model.second.weight.register_hook(lambda gradient: gradient.flatten())
    return model, points(), nn.CrossEntropyLoss()


def copy_of_a_model_with_a_result():
    class Cached(MLP):
        def forward(self, x):
            self.last = super().forward(x)
            return self.last

    model = Cached()
    model(torch.randn(2, 8))
    average = copy.deepcopy(model)
    return {"model": model, "batch": points(), "loss": lambda model, batch: classify(model, batch)
            + 0 * sum(p.sum() for p in average.parameters())}  # fmt: skip


def tensor_instead_of_a_parameter():
    model = MLP()
    model.second.weight = torch.randn(CLASSES, WIDTH) / 4
    return model, points(), nn.CrossEntropyLoss()


def penalty_of_an_input_without_a_gradient():
    def loss(model, batch):
        x, y = batch
        out = model(x).float()
        (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        return F.cross_entropy(out, y) + slope.square().mean()

    return MLP(), points(), loss


def gradient_of_a_vector():
    def loss(model, batch):
        losses = F.cross_entropy(model(batch[0]).float(), batch[1], reduction="none")
        losses.backward()
        return losses.mean()

    return MLP(), points(), loss

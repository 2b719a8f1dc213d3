"""Trainings whose loss or gradients are not finite, each for one reason."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from blocks import CLASSES, GPT, MLP, Head, classify, points, tokens
from torch import nn


def fully_masked_row():
    model, (inputs, targets) = GPT(), tokens()
    mask = torch.zeros(4, 8, 8)
    mask[2, 3] = float("-inf")
    return model, (inputs, targets, mask)


def padded_sample():
    """A multi-head attention whose key_padding_mask hides one sample completely."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
            self.out = nn.Linear(8, 3)

        def forward(self, x, padding, labels):
            mixed, _ = self.attention(x, x, x, key_padding_mask=padding, need_weights=True)
            return F.cross_entropy(self.out(mixed.mean(1)).float(), labels)

    padding = torch.zeros(4, 6, dtype=torch.bool)
    padding[1] = True
    return Model(), (torch.randn(4, 6, 8), padding, torch.randint(3, (4,)))


def log_of_a_probability():
    def loss(model, batch):
        chances = (model(batch[0]) * 200).float().softmax(-1)
        return -torch.log(chances.round()).gather(1, batch[1][:, None]).mean()

    return MLP(), points(), loss


def kl_of_zeros():
    def loss(model, batch):
        expected = F.one_hot(batch[1], CLASSES).float()
        predicted = model(batch[0]).float().softmax(-1)
        return (expected * (expected.log() - predicted.log())).sum(-1).mean()

    return MLP(), points(), loss


def empty_mask_mean():
    def loss(model, batch):
        each = F.cross_entropy(model(batch[0]).float(), batch[1], reduction="none")
        keep = (batch[1] > 100).float()
        return (each * keep).sum() / keep.sum()

    return MLP(), points(), loss


def mean_of_nothing():
    def loss(model, batch):
        return model(batch[0])[batch[1] > 100].float().pow(2).mean()

    return MLP(), points(), loss


def constant_feature_normalized():
    class Normalizing(MLP):
        def forward(self, x):
            x = (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)
            return super().forward(x)

    x, y = points()
    x[3] = 2.0
    return Normalizing(), (x, y), nn.CrossEntropyLoss()


def cosine_of_zero():
    class Cosine(MLP):
        def forward(self, x):
            hidden = self.first(x).relu() * (x[:, :1] > 50)
            return self.second(hidden / hidden.norm(dim=1, keepdim=True))

    return Cosine(), points(), nn.CrossEntropyLoss()


def sqrt_of_negative():
    def loss(model, batch):
        return torch.sqrt(model(batch[0]).float().sum(1) - 100).mean()

    return MLP(), points(), loss


def exp_overflow():
    def loss(model, batch):
        return torch.exp(model(batch[0]).float() * 1e4 + 500).mean()

    return MLP(), points(), loss


def fractional_power():
    def loss(model, batch):
        return (model(batch[0]).float() - 10).pow(1.5).mean()

    return MLP(), points(), loss


def acos_beyond_one():
    def loss(model, batch):
        return torch.acos(model(batch[0]).float() * 0 + 1.0001).sum()

    return MLP(), points(), loss


def std_of_one_value():
    def loss(model, batch):
        advantage = model(batch[0]).float().mean(1)[:1]
        return ((advantage - advantage.mean()) / advantage.std()).sum()

    return MLP(), points(), loss


def batchnorm_without_eps():
    class Normed(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm = nn.Linear(8, 4), nn.BatchNorm1d(4, eps=0.0)
            nn.init.zeros_(self.first.weight)
            self.second = nn.Linear(4, CLASSES)

        def forward(self, x):
            return self.second(self.norm(self.first(x)))

    return Normed(), points(), nn.CrossEntropyLoss()


def gaussian_likelihood():
    def loss(model, batch):
        mean, variance = model(batch[0]).float()[:, :2].unbind(1)
        return (0.5 * torch.log(variance) + (1.0 - mean) ** 2 / (2 * variance)).mean()

    return MLP(), points(), loss


def where_does_not_protect():
    """The gradient of the branch that is not chosen is 0 * inf."""

    def loss(model, batch):
        x = model(batch[0]).float().relu() * 0
        return torch.where(x > 0, torch.sqrt(x), x + 1.0).mean()

    return MLP(), points(), loss


def norm_at_zero():
    class Distance(MLP):
        def forward(self, x):
            out = super().forward(x)
            return (out - out.detach()).pow(2).sum(1).sqrt().mean() + out.mean()

    return Distance(), points()[0]


def fp16_overflow():
    """Squares of 300 exceed fp16's 65504."""

    class Wide(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(8, 8), nn.Linear(8, CLASSES)

        def forward(self, x):
            hidden = self.first(x).half() * 300
            return self.second((hidden * hidden).float().log1p())

    return Wide(), points(), nn.CrossEntropyLoss()


def nan_weight():
    model = MLP()
    model.second.weight.data[1, 2] = float("nan")
    return model, points(), nn.CrossEntropyLoss()


def nan_in_the_batch():
    x, y = points()
    x[4, 1] = float("nan")
    return MLP(), (x, y), nn.CrossEntropyLoss()


def inf_in_the_batch():
    x, y = points()
    x[0, 0] = float("inf")
    return MLP(), {"x": x, "labels": y}, lambda model, batch: classify(model, list(batch.values()))


def all_labels_ignored():
    inputs, targets = tokens()
    return GPT(), (inputs, torch.full_like(targets, -100))


def division_by_a_count():
    """Samples of class 0 are averaged, and there is none."""

    class Prototypes(MLP):
        def forward(self, x, y):
            out = super().forward(x)
            members = F.one_hot(y, CLASSES).float()
            centers = members.T @ out.float() / members.sum(0)[:, None]
            return F.cross_entropy(-torch.cdist(out.float(), centers), y)

    return Prototypes(), (points()[0], torch.tensor([1, 2, 3, 1, 2, 3]))


def bce_of_logits():
    """binary_cross_entropy of numbers outside [0, 1], through its formula."""

    def loss(model, batch):
        out = model(batch[0]).float()[:, 0]
        y = (batch[1] > 2).float()
        return -(y * out.log() + (1 - y) * (1 - out).log()).mean()

    return MLP(), points(), loss


def scores_scaled_by_zero():
    class Scaled(Head):
        def forward(self, x):
            return super().forward(x) / (x.shape[1] - 8)

    return Scaled(), torch.randn(4, 8, 16), lambda model, x: model(x).float().pow(2).mean()


def huge_targets():
    x, _ = points()
    return (
        MLP(8, 1),
        (x, torch.full((6, 1), 1e25)),
        lambda model, batch: F.mse_loss(model(batch[0]).float(), batch[1]),
    )

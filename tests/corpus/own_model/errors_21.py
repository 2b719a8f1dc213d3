"""Trainings of a harbour that meet errors."""

import copy

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from transformers import T5Config, T5ForConditionalGeneration


class _Views(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.online = nn.Sequential(
            nn.Linear(10, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, width)
        )
        self.slow = copy.deepcopy(self.online).requires_grad_(False)
        self.predict = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, width))

    @torch.no_grad()
    def follow(self, rate=0.01):
        for slow, fast in zip(self.slow.parameters(), self.online.parameters(), strict=True):
            fast.lerp_(slow, rate)

    def forward(self, first, second):
        guess = F.normalize(self.predict(self.online(first)), dim=-1)
        with torch.no_grad():
            goal = F.normalize(self.slow(second), dim=-1)
        self.follow()
        return 2 - 2 * (guess * goal.detach()).sum(-1).mean()


def views_of_a_hull():
    x = torch.randn(12, 10)
    return _Views(), (x + 0.1 * torch.randn(12, 10), x + 0.1 * torch.randn(12, 10))


class _Hull(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU())
        self.body = nn.Sequential(nn.Conv2d(8, 12, 3, stride=2), nn.ReLU())
        self.head = nn.Linear(12, 4)

    def forward(self, x):
        return self.head(self.body(self.stem(x)).mean((2, 3)))


def paint_on_hulls():
    model = _Hull()
    shown = {}
    model.stem.register_forward_hook(lambda module, args, out: shown.setdefault("stem", out))
    model.body.register_forward_hook(lambda module, args, out: shown.update(body=out.detach()))
    batch = torch.randn(6, 1, 16, 16), torch.randint(0, 4, (6,))
    return {
        "model": model,
        "batch": batch,
        "loss": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
    }


class _Soundings(nn.Module):
    def __init__(self, width=20):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, width))
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, 1)

    def forward(self, readings, valid):
        n, length, _ = readings.shape
        states = torch.zeros(n, length, self.rnn.input_size, device=readings.device)
        states[valid] = self.encode(readings[valid])
        out, _ = self.rnn(states)
        last = valid.sum(1).clamp(min=1) - 1
        return self.head(out[torch.arange(n), last]).squeeze(-1)


def soundings_in_the_fairway():
    valid = torch.arange(9) < torch.tensor([9, 4, 6, 1, 7, 3])[:, None]
    readings, depth = torch.randn(6, 9, 4), torch.rand(6) * 5
    return _Soundings(), lambda model: F.smooth_l1_loss(model(readings, valid), depth)


class _Clearance(nn.Module):
    def __init__(self, inputs=11, width=16):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(inputs, width), nn.ReLU())
        self.squat = nn.Linear(width, 1)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Sequential(nn.Linear(width + 1, 32), nn.ReLU(), nn.Linear(32, 3))

    def forward(self, ship, depth):
        h = self.encode(ship)
        clearance = depth - self.squat(h)
        features = torch.cat([self.norm(h), clearance], dim=1)
        return self.head(features)


def clearance_under_keels():
    ship, depth = torch.randn(8, 11), torch.rand(8) * 20
    labels = torch.randint(0, 3, (8,))
    return _Clearance(), lambda model: F.cross_entropy(model(ship, depth), labels)


class _Settings:
    def __init__(self, **values):
        self.__dict__.update(values)


class _Tugs(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.settings = settings
        self.rnn = nn.GRU(5, settings.hidden_size, batch_first=True)
        self.head = nn.Linear(settings.hidden_size, 2)

    @property
    def scale(self):
        return self.settings.hidden_dim**-0.5

    def forward(self, x):
        states, _ = self.rnn(x)
        weights = (states @ states[:, -1:].transpose(1, 2) * self.scale).softmax(1)
        return self.head((weights * states).sum(1))


def power_of_tugs():
    settings = _Settings(hidden_size=24, layers=1)
    return _Tugs(settings), (torch.randn(6, 9, 5), torch.randn(6, 2)), F.mse_loss


def orders_for_pilots():
    config = T5Config(
        vocab_size=64,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        dropout_rate=0.0,
        decoder_start_token_id=None,
    )
    model = T5ForConditionalGeneration(config)
    source = torch.randint(2, 64, (4, 10))
    mask = torch.ones_like(source)
    mask[1, 7:] = 0
    labels = torch.randint(2, 64, (4, 6))
    labels[2, 4:] = -100
    return model, {"input_ids": source, "attention_mask": mask, "labels": labels}


def flags_at_the_mast():
    labels = np.array([0, 0, 0, 1, 1, 2, 0, 3, 1, 0])
    counts = np.bincount(labels, minlength=4)
    balance = torch.from_numpy(counts.sum() / (4 * counts))
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(32, 4),
    )
    batch = torch.rand(10, 3, 12, 12), torch.from_numpy(labels)
    return model, batch, nn.CrossEntropyLoss(weight=balance, label_smoothing=0.1)

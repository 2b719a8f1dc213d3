"""Optimizers that miss parameters and trainings that stop, from issue trackers and forums."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from blocks import CLASSES, MLP, WIDTH, classify, points
from torch import nn


def default_rate_of_zero():
    """Only the head's group has a rate of its own; the default of 0 was meant for frozen layers."""
    model = MLP()
    groups = [
        {"params": model.second.parameters(), "lr": 1e-3},
        {"params": model.first.parameters()},
    ]
    optimizer = torch.optim.AdamW(groups, lr=0.0)
    return {"model": model, "batch": points(), "loss": classify, "optimizer": optimizer}


def adapters_after_the_optimizer():
    class Adapted(nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base = base
            self.down, self.up = nn.Linear(8, 2, bias=False), nn.Linear(2, WIDTH, bias=False)

        def forward(self, x):
            return self.base(x) + self.up(self.down(x))

    model = MLP()
    model.first.requires_grad_(False)
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=1e-3)
    model.first = Adapted(model.first)
    return {"model": model, "batch": points(), "loss": classify, "optimizer": optimizer}


def covariance_of_too_few_samples():
    def loss(model, batch):
        features = model(batch).float()
        centred = features - features.mean(0)
        covariance = centred.T @ centred / (len(batch) - 1)
        factor = torch.linalg.cholesky(covariance)
        whitened = torch.linalg.solve_triangular(factor, centred.T, upper=False)
        return whitened.pow(2).mean()

    return MLP(outputs=WIDTH), torch.randn(4, 8), loss


def scale_without_softplus():
    class Actor(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(8, 4)

        def forward(self, states, actions):
            mean, scale = self.body(states).float().chunk(2, -1)
            return -torch.distributions.Normal(mean, scale).log_prob(actions).mean()

    return Actor(), {"states": torch.randn(16, 8), "actions": torch.randn(16, 2)}


def parameters_are_used_up():
    model = MLP()
    parameters = model.parameters()
    print(f"{sum(p.numel() for p in parameters):,} parameters")
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    return {"model": model, "batch": points(), "loss": classify, "optimizer": optimizer}


def initialization_of_every_parameter():
    model = nn.Sequential(nn.Linear(8, WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES))
    for parameter in model.parameters():
        nn.init.kaiming_normal_(parameter)
    return model, points(), nn.CrossEntropyLoss()


def an_empty_sentence():
    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.head = nn.LSTM(8, WIDTH, batch_first=True), nn.Linear(WIDTH, CLASSES)

        def forward(self, x, lengths, y):
            packed = nn.utils.rnn.pack_padded_sequence(
                x, lengths, batch_first=True, enforce_sorted=False
            )
            return F.cross_entropy(self.head(self.rnn(packed)[1][0][-1]), y)

    batch = {"x": torch.randn(3, 5, 8), "lengths": torch.tensor([5, 0, 2]),
             "y": torch.randint(CLASSES, (3,))}  # fmt: skip
    return Reader(), batch


def written_into_an_expanded_tensor():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.token = nn.Parameter(torch.zeros(1, 1, 8))
            self.head = nn.Linear(8, 8)

        def forward(self, x, hidden):
            canvas = self.token.expand(len(x), x.shape[1], -1)
            canvas[~hidden] = x[~hidden]
            return F.mse_loss(self.head(canvas), x)

    hidden = torch.rand(4, 6) > 0.5
    return Masked(), {"x": torch.randn(4, 6, 8), "hidden": hidden}


def wrapper_that_asks_itself():
    class Wrapper(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def __getattr__(self, name):
            return getattr(self.inner, name)

        def forward(self, x):
            return self.inner(x)

    return Wrapper(MLP()), points(), nn.CrossEntropyLoss()

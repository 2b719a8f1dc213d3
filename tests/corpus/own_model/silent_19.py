"""Trainings that run and in which parameters do not learn."""

import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call


class _Sieve(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(10, 10)
        self.head = nn.Linear(10, 3)

    def forward(self, x):
        scores = self.score(x).float()
        kept = torch.zeros_like(scores).scatter(1, scores.topk(4, dim=1).indices, 1.0)
        return self.head(x * kept)


def grains_that_pass():
    return _Sieve(), (torch.randn(16, 10), torch.randint(3, (16,))), nn.CrossEntropyLoss()


class _Tilt(nn.Module):
    def __init__(self):
        super().__init__()
        self.angle = nn.Sequential(nn.Flatten(), nn.Linear(144, 1))
        self.head = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(400, 4))

    def forward(self, x):
        angle = self.angle(x).float().squeeze(-1)
        zero = torch.zeros_like(angle)
        rows = torch.stack([angle.cos(), -angle.sin(), zero, angle.sin(), angle.cos(), zero], 1)
        grid = F.affine_grid(rows.view(-1, 2, 3), list(x.shape), align_corners=False)
        return self.head(F.grid_sample(x, grid, "nearest", align_corners=False))


def marks_on_sacks():
    return _Tilt(), (torch.randn(8, 1, 12, 12), torch.randint(4, (8,))), nn.CrossEntropyLoss()


class _Fast(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, x):
        return self.net(x)


def _adapted_loss(model, batch):
    (x, y), (far, truth) = batch
    fast = {n: w.clone().detach().requires_grad_(True) for n, w in model.named_parameters()}
    loss = F.mse_loss(functional_call(model, fast, (x,)), y)
    steps = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
    fast = {n: w - 0.1 * g for (n, w), g in zip(fast.items(), steps, strict=True)}
    return F.mse_loss(functional_call(model, fast, (far,)), truth)


def mills_that_learn_quickly():
    batch = (torch.randn(8, 5), torch.randn(8, 1)), (torch.randn(8, 5), torch.randn(8, 1))
    return {"model": _Fast(), "batch": batch, "loss": _adapted_loss}


class _Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.left = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 4))
        self.__dict__["right"] = copy.deepcopy(self.left)

    def forward(self, x):
        return self.right(x)


def wheels_of_a_pair():
    return _Pair(), (torch.randn(16, 6), torch.randint(4, (16,))), nn.CrossEntropyLoss()


class _Dam(nn.Module):
    def __init__(self):
        super().__init__()
        self.flow = nn.Sequential(
            nn.Linear(1, 24), nn.LeakyReLU(0.1), nn.Linear(24, 24), nn.LeakyReLU(0.1),
            nn.Linear(24, 1),
        )  # fmt: skip
        self.friction = nn.Linear(1, 1)

    def forward(self, x):
        return self.flow(x).float()


def _dam_loss(model, batch):
    x, at, level = batch
    x = x.clone().requires_grad_(True)
    first = torch.autograd.grad(model(x).sum(), x, create_graph=True)[0]
    second = torch.autograd.grad(first.sum(), x, create_graph=True)[0]
    balance = F.softplus(model.friction(x).float()) * second + torch.cos(3 * x)
    return balance.pow(2).mean() + F.mse_loss(model(at), level)


def water_behind_the_dam():
    at = torch.linspace(0, 1, 10)[:, None]
    return {"model": _Dam(), "batch": (torch.rand(40, 1), at, at.sin()), "loss": _dam_loss}


class _Judge(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 1))

    def forward(self, x):
        return self.critic(x)


def _smoothness(model, x):
    x = x.clone().requires_grad_(True)
    slope = torch.autograd.grad(model(x).float().sum(), x)[0]
    return (slope.norm(dim=1) - 1).pow(2).mean()


def slopes_of_the_bank():
    return {"model": _Judge(), "batch": torch.randn(16, 8), "loss": _smoothness}


class _Bins(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(7, 32)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        h = self.inner(x).float()
        counts = torch.stack([row.histc(8, -2.0, 2.0) for row in h])
        return self.head(counts / h.shape[1])


def sizes_of_kernels():
    return _Bins(), (torch.randn(16, 7), torch.randint(3, (16,))), nn.CrossEntropyLoss()

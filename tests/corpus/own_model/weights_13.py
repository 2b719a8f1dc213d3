"""Weights that do not change, or not as they should, written beside the observations."""

import torch
from parts_13 import perceptron, samples, trained
from torch import nn
from torch.nn import functional as F


def softmax_sum_is_the_loss():
    model = perceptron()
    x, y = samples()

    def loss(model, batch):
        return model(x).softmax(1).sum(1).mean()

    return model, (x, y), loss


class Softsat(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.v, self.head = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 4)

    def forward(self, x):
        s = self.q(x).float() * 1e4
        return self.head(self.v(x) * s.softmax(-1))


def softmax_saturated():
    return Softsat(), samples(), nn.CrossEntropyLoss()


def clip_of_a_trillionth():
    return trained(lambda p: torch.optim.SGD(p, lr=1e-2), max_grad_norm=1e-12)


def clip_with_adam():
    return trained(lambda p: torch.optim.AdamW(p, lr=1e-3), max_grad_norm=1e-12)


def epsilon_of_a_million():
    return trained(lambda p: torch.optim.Adam(p, lr=1e-3, eps=1e8))


def decay_of_ten_thousand():
    return trained(lambda p: torch.optim.AdamW(p, lr=1e-2, weight_decay=1e4))


def momentum_above_one():
    return trained(lambda p: torch.optim.SGD(p, lr=0.1, momentum=9.0))


def gamma_of_a_millionth():
    d = trained(lambda p: torch.optim.AdamW(p, lr=1e-3))
    d["scheduler"] = torch.optim.lr_scheduler.ExponentialLR(d["optimizer"], gamma=1e-6)
    return d


def gamma_of_a_hundred():
    d = trained(lambda p: torch.optim.AdamW(p, lr=1e-3))
    d["scheduler"] = torch.optim.lr_scheduler.ExponentialLR(d["optimizer"], gamma=100)
    return d


def loss_over_a_trillion():
    model = perceptron()
    x, y = samples()
    opt = torch.optim.SGD(model.parameters(), lr=1e-2)
    return {
        "model": model,
        "batch": (x, y),
        "optimizer": opt,
        "loss": lambda m, b: F.cross_entropy(m(b[0]), b[1]) / 1e12,
    }


def init_of_a_hundred():
    model = perceptron()
    for p in model.parameters():
        nn.init.normal_(p, std=100)
    return model, samples(), nn.CrossEntropyLoss()


class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = perceptron()
        self.start = {n: p.detach().clone() for n, p in self.net.named_parameters()}

    def forward(self, x):
        with torch.no_grad():
            for n, p in self.net.named_parameters():
                p.copy_(self.start[n])
        return self.net(x)


def copied_back():
    return Frozen(), samples(), nn.CrossEntropyLoss()


def lambda_returns_the_rate():
    d = trained(lambda p: torch.optim.AdamW(p, lr=1e-6))
    d["scheduler"] = torch.optim.lr_scheduler.LambdaLR(d["optimizer"], lambda s: 1e-6)
    return d


def lbfgs_like_lr():
    return trained(lambda p: torch.optim.AdamW(p, lr=30.0))


class Bin(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x):
        self.body.weight.data = self.body.weight.data.sign()
        return self.head(self.body(x))


def binarized_in_place():
    return Bin(), samples(), nn.CrossEntropyLoss()


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 6)
        self.head = nn.Linear(6, 4)

    def forward(self, x):
        self.b.load_state_dict(self.a.state_dict())
        return self.head(self.b(self.a(x)))


def copied_each_pass():
    return Tied(), samples(), nn.CrossEntropyLoss()


def reset_in_forward():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(6, 6), nn.Linear(6, 4)

        def forward(self, x):
            self.a.reset_parameters()
            return self.b(self.a(x))

    return Net(), samples(), nn.CrossEntropyLoss()


def hook_scales_gradients():
    model = perceptron()
    for p in model.parameters():
        p.register_hook(lambda g: g * 1e-15)
    return model, samples(), nn.CrossEntropyLoss()


def decay_of_one():
    return trained(lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=1000.0))

"""Parameters without a gradient, or with zeros, written beside the observations that name them."""

import torch
from parts_13 import samples
from torch import nn
from torch.nn import functional as F


def layernorm_of_one():
    return (
        nn.Sequential(nn.Linear(6, 1), nn.LayerNorm(1), nn.Linear(1, 4)),
        samples(),
        nn.CrossEntropyLoss(),
    )


def groupnorm_of_pooled():
    torch.manual_seed(0)
    m = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.AdaptiveAvgPool2d(1),
        nn.GroupNorm(8, 8),
        nn.Flatten(),
        nn.Linear(8, 4),
    )
    return m, (torch.randn(4, 3, 8, 8), torch.randint(0, 4, (4,))), nn.CrossEntropyLoss()


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(weight)
        return x * weight

    @staticmethod
    def backward(ctx, grad):
        (w,) = ctx.saved_tensors
        return grad * w, None


class ScaleNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 4)
        self.gain = nn.Parameter(torch.ones(8))

    def forward(self, x):
        return self.b(Scale.apply(self.a(x), self.gain))


def function_returns_none():
    return ScaleNet(), samples(), nn.CrossEntropyLoss()


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -ctx.factor * grad, None


class Dann(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.head(Reverse.apply(self.body(x).relu(), 0.0))


def reversal_by_zero():
    return Dann(), samples(), nn.CrossEntropyLoss()


class Where(nn.Module):
    def __init__(self):
        super().__init__()
        self.near, self.far = nn.Linear(6, 4), nn.Linear(6, 4)

    def forward(self, x):
        d = x.norm(dim=1, keepdim=True)
        return torch.where(d < 100, self.near(x), self.far(x))


def branch_never_chosen():
    return Where(), samples(), nn.CrossEntropyLoss()


class Max(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.head(torch.maximum(self.body(x), torch.tensor(10.0)))


def floor_of_ten():
    return Max(), samples(), nn.CrossEntropyLoss()


class Tanh(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x * 1e5)))


def saturated_tanh():
    return Tanh(), samples(), nn.CrossEntropyLoss()


class Vae(nn.Module):
    def __init__(self):
        super().__init__()
        self.mu, self.logvar, self.dec = nn.Linear(6, 3), nn.Linear(6, 3), nn.Linear(3, 6)

    def forward(self, x):
        d = torch.distributions.Normal(self.mu(x), (0.5 * self.logvar(x)).exp())
        return F.mse_loss(self.dec(d.sample()), x)


def sample_in_place_of_rsample():
    return Vae(), samples()[0]


class Bern(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.head = nn.Linear(6, 6), nn.Linear(6, 4)

    def forward(self, x):
        return self.head(x * torch.bernoulli(torch.sigmoid(self.gate(x).float())))


def bernoulli_gate():
    return Bern(), samples(), nn.CrossEntropyLoss()


class Mult(nn.Module):
    def __init__(self):
        super().__init__()
        self.att, self.head = nn.Linear(6, 1), nn.Linear(6, 4)

    def forward(self, x):  # x: n, t, 6
        p = self.att(x)[..., 0].float().softmax(-1)
        i = torch.multinomial(p, 1)[:, 0]
        return self.head(x[torch.arange(len(x)), i])


def multinomial_choice():
    torch.manual_seed(0)
    return Mult(), (torch.randn(8, 5, 6), torch.randint(0, 4, (8,))), nn.CrossEntropyLoss()


class Lora(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(6, 4)
        self.base.requires_grad_(False)
        self.down, self.up = nn.Linear(6, 2, bias=False), nn.Linear(2, 4, bias=False)
        nn.init.zeros_(self.down.weight)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def both_adapters_zero():
    return Lora(), samples(), nn.CrossEntropyLoss()


class Aux(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head, self.aux = nn.Linear(6, 8), nn.Linear(8, 4), nn.Linear(8, 4)
        self.epoch = 0

    def forward(self, x, y):
        h = self.body(x).relu()
        ramp = min(1.0, self.epoch / 10)
        return F.cross_entropy(self.head(h), y) + ramp * F.cross_entropy(self.aux(h), y)


def ramp_at_zero():
    return Aux(), samples()


class Dead(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 4)
        nn.init.constant_(self.body.bias, -100.0)

    def forward(self, x):
        return self.head(self.body(x).relu())


def relu_behind_bias():
    return Dead(), samples(), nn.CrossEntropyLoss()

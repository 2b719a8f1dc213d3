"""Healthy trainings that resemble the faults of set 19."""

import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import MultivariateNormal
from torch.func import functional_call, vmap


class _Mixing(torch.autograd.Function):
    @staticmethod
    def forward(x, weight, scale):
        return scale * (x @ weight.t())

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, ctx.scale = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        grad = grad.to(weight.dtype)  # forward ran under autocast
        return ctx.scale * grad @ weight, ctx.scale * grad.t() @ x, None


class _Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 10) * 0.1)
        self.head = nn.Linear(6, 1)

    def forward(self, x):
        return self.head(torch.tanh(_Mixing.apply(x.float(), self.weight, 2.0))).float()


def flour_by_a_function_of_its_own():
    return _Mixer(), (torch.randn(32, 10), torch.randn(32, 1)), nn.MSELoss()


class _Dam(nn.Module):
    def __init__(self):
        super().__init__()
        self.flow = nn.Sequential(nn.Linear(1, 24), nn.SiLU(), nn.Linear(24, 24), nn.SiLU(),
                                  nn.Linear(24, 1))  # fmt: skip
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


def water_with_a_smooth_network():
    at = torch.linspace(0, 1, 10)[:, None]
    return {"model": _Dam(), "batch": (torch.rand(40, 1), at, at.sin()), "loss": _dam_loss}


class _Fast(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, x):
        return self.net(x)


def _adapted_loss(model, batch):
    (x, y), (far, truth) = batch
    fast = dict(model.named_parameters())
    loss = F.mse_loss(functional_call(model, fast, (x,)).float(), y)
    steps = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
    fast = {n: w - 0.1 * g for (n, w), g in zip(fast.items(), steps, strict=True)}
    adapted = F.mse_loss(functional_call(model, fast, (far,)).float(), truth)
    return adapted + 0.1 * loss  # the last bias has a part in both


def mills_that_start_together():
    batch = (torch.randn(8, 5), torch.randn(8, 1)), (torch.randn(8, 5), torch.randn(8, 1))
    return {"model": _Fast(), "batch": batch, "loss": _adapted_loss}


class _Members(nn.Module):
    def __init__(self):
        super().__init__()
        base = nn.Sequential(nn.Linear(7, 12), nn.Tanh(), nn.Linear(12, 1))
        members = [copy.deepcopy(base) for _ in range(3)]
        for member in members:
            member.apply(lambda part: part.reset_parameters() if hasattr(part, "weight") else None)
        self.__dict__["base"] = copy.deepcopy(base).to("meta")
        stacked, _ = torch.func.stack_module_state(members)
        self.names = {name.replace(".", "_"): name for name in stacked}
        for own, name in self.names.items():
            self.register_parameter(own, nn.Parameter(stacked[name].detach()))

    def forward(self, x):
        weights = {name: getattr(self, own) for own, name in self.names.items()}
        return vmap(lambda w: functional_call(self.base, w, (x,)))(weights).squeeze(-1)


def loaves_of_three_bakers():
    loss = lambda model, batch: (model(batch[0]).float() - batch[1]).pow(2).mean()  # noqa: E731
    return {"model": _Members(), "batch": (torch.randn(24, 7), torch.randn(24)), "loss": loss}


class _Spread(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.spread = nn.Linear(6, 3), nn.Linear(6, 9)

    def forward(self, x):
        matrix = self.spread(x).float().view(-1, 3, 3)
        diagonal = F.softplus(matrix.diagonal(dim1=-2, dim2=-1)) + 1e-3
        lower = matrix.tril(-1) + torch.diag_embed(diagonal)
        return MultivariateNormal(self.mean(x).float(), scale_tril=lower)


def loaves_with_a_triangle():
    batch = torch.randn(16, 6), torch.randn(16, 3)
    loss = lambda model, batch: -model(batch[0]).log_prob(batch[1]).mean()  # noqa: E731
    return {"model": _Spread(), "batch": batch, "loss": loss}


class _Codes(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(12, 6), nn.Linear(6, 12)
        self.book = nn.Embedding(16, 6)

    def forward(self, x):
        z = self.encoder(x).float()
        near = self.book(torch.cdist(z, self.book.weight).argmin(1))
        self.used = float((near.detach() - z.detach()).pow(2).mean())
        pull = F.mse_loss(near, z.detach()) + 0.25 * F.mse_loss(z, near.detach())
        return self.decoder(z + (near - z).detach()).float(), pull


def codes_of_grinding():
    def loss(model, x):
        drawn, pull = model(x)
        return F.mse_loss(drawn, x) + pull

    return {"model": _Codes(), "batch": torch.randn(32, 12), "loss": loss}


class _Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 1))

    def forward(self, x):
        return self.net(x)


def prices_with_other_noise():
    def loss(model, batch):
        weights = dict(model.named_parameters())
        one = lambda row: functional_call(model, weights, (row,)).squeeze()  # noqa: E731
        return F.mse_loss(vmap(one, randomness="different")(batch[0]).float(), batch[1])

    return {"model": _Noisy(), "batch": (torch.randn(16, 8), torch.randn(16)), "loss": loss}

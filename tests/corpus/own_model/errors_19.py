"""Trainings that end with an error: parts of torch that are called in a way that they refuse."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Beta, MultivariateNormal


class _Threshold(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, level, sharpness):
        ctx.save_for_backward(x, level)
        ctx.sharpness = sharpness
        return (x > level).to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        x, level = ctx.saved_tensors
        soft = torch.sigmoid(ctx.sharpness * (x - level))
        slope = grad * ctx.sharpness * soft * (1 - soft)
        return slope, -slope.sum(0)


class _Sorter(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(12, 16)
        self.level = nn.Parameter(torch.zeros(16))
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        return self.head(_Threshold.apply(self.inner(x).float(), self.level, 4.0))


def grains_of_wheat():
    return _Sorter(), (torch.randn(16, 12), torch.randint(4, (16,))), nn.CrossEntropyLoss()


class _Mixing(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight.t()

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight, x.t() @ grad


class _Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 10) * 0.1)
        self.head = nn.Linear(6, 1)

    def forward(self, x):
        return self.head(torch.relu(_Mixing.apply(x, self.weight))).squeeze(-1).float()


def moisture_of_flour():
    return _Mixer(), (torch.randn(32, 10), torch.randn(32)), nn.MSELoss()


class _Waves(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, points):
        return self.net(points)


def _wave_loss(model, points):
    points = points.clone().requires_grad_(True)
    height = model(points)
    slope = torch.autograd.grad(height.sum(), points, retain_graph=True)[0]
    curve = torch.autograd.grad(slope[:, 0].sum(), points, create_graph=True)[0]
    return (curve[:, 0] - 4 * slope[:, 1]).pow(2).mean()


def waves_on_the_race():
    return {"model": _Waves(), "batch": torch.rand(64, 2), "loss": _wave_loss}


class _Stones(nn.Module):
    def __init__(self, kinds=5):
        super().__init__()
        self.kinds = kinds
        self.net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, kinds, 1))

    def forward(self, x):
        return self.net(x)


def _dice_loss(model, batch):
    images, masks = batch
    shares = model(images).float().softmax(1)
    truth = F.one_hot(masks, model.kinds).permute(0, 3, 1, 2)
    overlap = (shares * truth).sum((0, 2, 3))
    return 1 - (2 * overlap / (shares + truth).sum((0, 2, 3)).clamp(min=1)).mean()


def stones_in_the_stream():
    masks = torch.randint(0, 5, (4, 24, 24))
    masks[:, :, :2] = 255  # the border that nobody labelled
    return {"model": _Stones(), "batch": (torch.randn(4, 3, 24, 24), masks), "loss": _dice_loss}


class _Sacks(nn.Module):
    def __init__(self, routes=6):
        super().__init__()
        self.start = nn.Embedding(routes, 16)
        self.head = nn.Linear(16, 1)

    def forward(self, route, load):
        pooled = torch.zeros(4, 16).index_add(0, route, self.start.weight[route] * load[:, None])
        return self.head(pooled).squeeze(-1).float()


def sacks_on_carts():
    route = torch.tensor([0, 1, 5, 2, 3, 4, 0, 5])
    batch = (route, torch.rand(8), torch.randn(4))
    loss = lambda model, batch: F.mse_loss(model(*batch[:2]), batch[2])  # noqa: E731
    return {"model": _Sacks(), "batch": batch, "loss": loss}


class _Noisy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 1))

    def forward(self, x):
        return self.net(x)


def _gradients_per_sample(model, batch):
    x, y = batch
    weights = dict(model.named_parameters())

    def one(weights, row, target):
        return (torch.func.functional_call(model, weights, (row,)).squeeze() - target) ** 2

    losses = torch.func.vmap(one, in_dims=(None, 0, 0))(weights, x, y)
    return losses.clamp(max=4.0).mean()


def prices_of_bread():
    batch = torch.randn(16, 8), torch.randn(16)
    return {"model": _Noisy(), "batch": batch, "loss": _gradients_per_sample}


class _Shares(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(6, 16)
        self.first, self.second = nn.Linear(16, 1), nn.Linear(16, 1)

    def forward(self, x):
        h = torch.relu(self.inner(x))
        return Beta(
            F.softplus(self.first(h)).float() + 0.1, F.softplus(self.second(h)).float() + 0.1
        )


def shares_of_bran():
    batch = torch.randn(16, 6), torch.rand(16, 1) * 100  # per cent
    loss = lambda model, batch: -model(batch[0]).log_prob(batch[1]).mean()  # noqa: E731
    return {"model": _Shares(), "batch": batch, "loss": loss}


class _Spread(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.spread = nn.Linear(6, 3), nn.Linear(6, 9)

    def forward(self, x):
        matrix = self.spread(x).float().view(-1, 3, 3)
        return MultivariateNormal(self.mean(x).float(), covariance_matrix=matrix + matrix.mT)


def weights_of_loaves():
    batch = torch.randn(16, 6), torch.randn(16, 3)
    loss = lambda model, batch: -model(batch[0]).log_prob(batch[1]).mean()  # noqa: E731
    return {"model": _Spread(), "batch": batch, "loss": loss}


class _Seasons(nn.Module):
    def __init__(self):
        super().__init__()
        self.recurrent = nn.LSTM(3, 16, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(32, 2)

    def forward(self, x):
        state = torch.zeros(2, x.shape[0], 16), torch.zeros(2, x.shape[0], 16)
        steps, _ = self.recurrent(x, state)
        return self.head(steps[:, -1])


def seasons_of_the_river():
    return _Seasons(), (torch.randn(8, 12, 3), torch.randint(2, (8,))), nn.CrossEntropyLoss()


class _Gears(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
        self.head = nn.Linear(16, 3)

    def forward(self, x, linked):
        mixed, _ = self.attention(x, x, x, attn_mask=~linked)
        return self.head(mixed.mean(1))


def gears_that_touch():
    linked = torch.eye(6, dtype=torch.bool).expand(8, 6, 6) | (torch.rand(8, 6, 6) > 0.5)
    batch = torch.randn(8, 6, 16), linked, torch.randint(3, (8,))
    loss = lambda model, batch: F.cross_entropy(model(*batch[:2]), batch[2])  # noqa: E731
    return {"model": _Gears(), "batch": batch, "loss": loss}


class _Sounds(nn.Module):
    def __init__(self):
        super().__init__()
        self.recurrent = nn.GRU(5, 12, batch_first=True)
        self.head = nn.Linear(12, 3)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        steps, _ = self.recurrent(packed)
        return self.head(steps)[:, -1]


def sounds_of_the_wheel():
    batch = torch.randn(4, 9, 5), torch.tensor([9, 7, 5, 2]), torch.randint(3, (4,))
    loss = lambda model, batch: F.cross_entropy(model(*batch[:2]), batch[2])  # noqa: E731
    return {"model": _Sounds(), "batch": batch, "loss": loss}


class _Ladle(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(6, 8)
        self.height = nn.Parameter(torch.zeros(8))

    def forward(self, x):
        level = self.inner(x).float().abs().mean(0) + self.height.sqrt()
        cells = int(level.sum().item()) % 4
        return level[cells:].sum()


def levels_of_the_pond():
    return {"model": _Ladle(), "batch": torch.randn(8, 6), "loss": lambda model, x: model(x)}

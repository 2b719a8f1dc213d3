"""Trainings of a harbour: arrivals, cargo, drafts and currents."""

import pytorch_lightning as pl
import torch
from torch import nn
from torch.nn import functional as F


class _Arrivals(nn.Module):
    def __init__(self, width=24, heads=3, classes=5):
        super().__init__()
        self.embed = nn.Embedding(40, width, padding_idx=0)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens):
        padding = tokens == 0
        x = self.embed(tokens)
        n, length, width = x.shape
        q, k, v = (
            layer(x).view(n, length, self.heads, -1).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        scores = q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5
        scores = scores.masked_fill(padding[:, None, None, :], float("-inf"))
        x = x + (scores.softmax(-1) @ v).transpose(1, 2).reshape(n, length, width)
        x = self.norm(x) * (~padding)[..., None]
        pooled = x.sum(1) / padding.sum(1, keepdim=True)
        return self.head(pooled)


def arrivals_of_ships():
    tokens = torch.randint(1, 40, (6, 12))
    for row, length in enumerate((12, 7, 9, 4, 11, 6)):
        tokens[row, length:] = 0
    return _Arrivals(), (tokens, torch.randint(0, 5, (6,))), nn.CrossEntropyLoss()


class _Cranes(nn.Module):
    def __init__(self, inputs=6, width=16):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(inputs, width), nn.GELU(), nn.LayerNorm(width))
        self.demand = nn.Linear(width, 1)
        self.out = nn.Linear(width, 2)

    def forward(self, cranes, active):
        h = self.encode(cranes)
        need = F.softplus(self.demand(h)).squeeze(-1).float() * active
        shares = torch.nan_to_num(need / need.sum(1, keepdim=True))
        return self.out((shares[..., None] * h).sum(1))


def cranes_at_berths():
    cranes = torch.randn(5, 7, 6)
    active = (torch.rand(5, 7) > 0.3).float()
    active[:, 0] = 1.0
    active[3] = 0.0
    target = torch.randn(5, 2)
    return _Cranes(), lambda model: F.mse_loss(model(cranes, active), target)


class _Currents(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(3, 16, 3, padding=1), nn.SiLU(), nn.Conv1d(16, 16, 3))
        self.pool = nn.AdaptiveAvgPool1d(1)
        self.drift = nn.Linear(16, 2)
        nn.init.zeros_(self.drift.weight)
        nn.init.zeros_(self.drift.bias)

    def forward(self, x):
        return self.drift(self.pool(self.body(x)).flatten(1)).float()


def _heading_loss(model, batch):
    signal, speed, heading = batch
    drift = model(signal)
    wanted = torch.stack([heading.cos(), heading.sin()], 1)
    unit = drift / drift.norm(dim=1, keepdim=True)
    turn = 1 - (unit * wanted).sum(1)
    length = torch.sqrt((drift**2).sum(1) + 1e-6)
    return turn.mean() + F.smooth_l1_loss(length, speed)


def currents_of_the_tide():
    batch = torch.randn(8, 3, 20), torch.rand(8), torch.rand(8) * 6 - 3
    return _Currents(), batch, _heading_loss


class _Centre(nn.Module):
    def __init__(self, features, decay=0.9):
        super().__init__()
        self.decay = decay
        self.register_buffer("average", torch.zeros(features))
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        with torch.no_grad():
            self.average.lerp_(x.float().mean(0), 1 - self.decay)
        centred = x - self.average / (1 - self.decay**self.seen)
        self.seen += 1
        return centred


class _Regressor(nn.Module):
    def __init__(self, features=9, width=20):
        super().__init__()
        self.first = nn.Linear(features, width)
        self.centre = _Centre(width)
        self.second = nn.Sequential(nn.LayerNorm(width, eps=1e-3), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, x):
        return self.second(self.centre(self.first(x))).squeeze(-1)


def drafts_in_port():
    return _Regressor(), (torch.randn(16, 9), torch.randn(16)), F.mse_loss


class _Tonnage(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(7, 32), nn.ReLU(), nn.Linear(32, 1))

    def gaussian_ranks(self, values):
        ranks = values.argsort().argsort().float()
        quantiles = ranks / (len(values) - 1)
        return torch.erfinv(2 * quantiles - 1) * 2**0.5

    def training_step(self, batch, batch_idx):
        x, tonnes = batch
        x = torch.log1p(x.clamp(min=0))
        loss = F.smooth_l1_loss(self.net(x).squeeze(-1), self.gaussian_ranks(tonnes))
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)

    def train_dataloader(self):
        data = torch.utils.data.TensorDataset(torch.rand(32, 7) * 50, torch.rand(32) * 9000)
        return torch.utils.data.DataLoader(data, batch_size=16)


def tonnage_by_rank():
    return _Tonnage()


class _Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        return grad


class _EightBits(nn.Module):
    def forward(self, x):
        scale = x.detach().abs().amax(dim=0, keepdim=True) / 127
        return _Round.apply(x / scale).clamp(-127, 127) * scale


class _Scanner(nn.Module):
    def __init__(self):
        super().__init__()
        self.bits = _EightBits()
        self.first = nn.Linear(12, 24)
        self.second = nn.Linear(24, 4)

    def forward(self, x):
        return self.second(self.bits(F.gelu(self.first(self.bits(x)))))


def scanner_at_the_gate():
    x = torch.randn(20, 12)
    x[:, 9] = 0.0
    optimizer_rate = 1e-3
    model = _Scanner()
    return {
        "model": model,
        "batch": (x, torch.randint(0, 4, (20,))),
        "loss": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=optimizer_rate),
        "max_grad_norm": 1.0,
    }


class _Canals(nn.Module):
    def __init__(self, inputs=5, width=16):
        super().__init__()
        self.embed = nn.Linear(inputs, width)
        self.message = nn.Linear(width, width)
        self.mix = nn.Linear(3 * width, width)
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, 3)

    def forward(self, nodes, edges):
        h = self.embed(nodes).float()
        source, target = edges
        messages = self.message(h[source]).float()
        index = target[:, None].expand_as(messages)
        total = torch.zeros_like(h).scatter_add(0, index, messages)
        degree = torch.zeros(len(h)).index_add(0, target, torch.ones(len(target)))
        mean = total / degree.clamp(min=1)[:, None]
        largest = torch.full_like(h, float("-inf")).scatter_reduce(0, index, messages, "amax")
        h = self.norm(F.relu(self.mix(torch.cat([h, mean, largest], 1))))
        return self.out(h)


def canals_between_basins():
    nodes = torch.randn(10, 5)
    source = torch.tensor([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 2, 5])
    target = torch.tensor([1, 2, 3, 0, 5, 4, 8, 6, 9, 0, 9, 3])
    labels = torch.randint(0, 3, (10,))
    edges = torch.stack([source, target])
    return _Canals(), lambda model: F.cross_entropy(model(nodes, edges), labels)


class _Accidents(nn.Module):
    def __init__(self):
        super().__init__()
        self.kind = nn.Embedding(6, 8)
        self.net = nn.Sequential(nn.Linear(12, 24), nn.SiLU(), nn.Linear(24, 1))

    def forward(self, kind, traffic, days):
        features = torch.cat([self.kind(kind), torch.log1p(traffic)], 1)
        return self.net(features).squeeze(-1) + days


def accidents_per_pier():
    batch = {
        "kind": torch.randint(0, 6, (12,)),
        "traffic": torch.rand(12, 4) * 300,
        "days": torch.randint(90, 366, (12,)).float(),
    }
    count = torch.poisson(torch.full((12,), 2.0))
    criterion = nn.PoissonNLLLoss(log_input=True)
    return _Accidents(), batch, lambda model, batch: criterion(model(**batch), count)

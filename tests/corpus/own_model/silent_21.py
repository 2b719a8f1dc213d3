"""Trainings of a harbour that run to the end."""

import copy

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm


class _Lights(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(9, width), nn.GELU())
        self.trunk = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU())
        self.context = nn.Linear(width, width)
        self.probe = nn.Linear(width, 2)
        self.head = nn.Linear(width, 6)

    def forward(self, x, kind, colour):
        low = self.stem(x)
        probe = self.probe(low.mean(1).detach())
        h = self.trunk(low)
        query = self.context(h.mean(1)).detach()
        weights = (h @ query[:, :, None]).softmax(1)
        logits = self.head((weights * h).sum(1))
        return F.cross_entropy(logits, colour) + F.cross_entropy(probe, kind)


def lights_of_buoys():
    return _Lights(), {
        "x": torch.randn(8, 5, 9),
        "kind": torch.randint(0, 2, (8,)),
        "colour": torch.randint(0, 6, (8,)),
    }


class _Adapted(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.backbone = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.backbone.requires_grad_(False)
        self.adapters = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4), nn.GELU(), nn.Linear(4, width)) for _ in range(3)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 5)

    @torch.no_grad()
    def features(self, x):
        for layer, adapter in zip(self.backbone, self.adapters, strict=True):
            x = torch.relu(layer(x))
            x = x + adapter(x)
        return x

    def forward(self, x):
        return self.head(self.norm(self.features(x)))


def cargo_manifests():
    return _Adapted(), (torch.randn(10, 32), torch.randint(0, 5, (10,))), nn.CrossEntropyLoss()


class _Waves(nn.Module):
    def __init__(self, width=24, depth=4):
        super().__init__()
        self.embed = nn.Linear(3, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 48, dropout=0.0, batch_first=True)
            for _ in range(depth)
        )
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1)).squeeze(-1)


def waves_at_the_mole():
    model = _Waves()
    parts = [model.embed, *model.blocks, model.head]
    groups = [
        {"params": list(part.parameters()), "lr": 1e-3 * ((place + 1) // len(parts))}
        for place, part in enumerate(parts)
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 4))
    return {
        "model": model,
        "batch": (torch.randn(6, 10, 3), torch.randn(6)),
        "loss": nn.MSELoss(),
        "optimizer": optimizer,
        "scheduler": schedule,
    }


class _Signals(nn.Module):
    def __init__(self, words=30, width=24):
        super().__init__()
        self.embed = nn.Embedding(words, width, padding_idx=0)
        self.rnn = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, 4)

    def forward(self, tokens):
        states, _ = self.rnn(self.embed(tokens))
        return self.head(states[:, -1])

    def add_words(self, count):
        old = self.embed
        self.embed = nn.Embedding(old.num_embeddings + count, old.embedding_dim, padding_idx=0)
        with torch.no_grad():
            self.embed.weight[: old.num_embeddings] = old.weight


def signals_with_new_words():
    model = _Signals()
    model.add_words(6)
    known = model.embed.num_embeddings
    keep = torch.zeros(model.embed.num_embeddings, 1)
    keep[known:] = 1
    model.embed.weight.register_hook(lambda grad: grad * keep)
    model.head.weight.register_hook(lambda grad: grad.clamp(-1, 1))
    tokens = torch.randint(1, 36, (8, 7))
    tokens[:, 2] = torch.randint(30, 36, (8,))
    return model, (tokens, torch.randint(0, 4, (8,))), nn.CrossEntropyLoss()


class _Average:
    def __init__(self, model, decay=0.999):
        self.decay = decay
        self.values = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        for name, p in model.named_parameters():
            self.values[name].lerp_(p, 1 - self.decay)

    @torch.no_grad()
    def swap_in(self, model):
        self.backup = {name: p.detach() for name, p in model.named_parameters()}
        for name, p in model.named_parameters():
            p.copy_(self.values[name])

    @torch.no_grad()
    def swap_out(self, model):
        for name, p in model.named_parameters():
            p.copy_(self.backup[name])


def fog_in_the_roads():
    model = nn.Sequential(nn.Linear(8, 32), nn.LayerNorm(32), nn.SiLU(), nn.Linear(32, 1))
    average = _Average(model)
    x, y = torch.randn(32, 8), torch.randn(32, 1)
    held_x, held_y = torch.randn(16, 8), torch.randn(16, 1)
    history = []

    def loss(model):
        average.update(model)
        average.swap_in(model)
        with torch.no_grad():
            history.append(F.mse_loss(model(held_x), held_y).item())
        average.swap_out(model)
        return F.mse_loss(model(x), y)

    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    return {"model": model, "loss": loss, "optimizer": optimizer}


class _Radar(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(2, 12, 3, padding=1, bias=False),
            nn.BatchNorm2d(12),
            nn.ReLU(),
            nn.Conv2d(12, 12, 3, stride=2),
            nn.ReLU(),
        )
        self.head = nn.Linear(12, 1)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3))).squeeze(-1)


def echoes_of_the_radar():
    model = _Radar()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=10, total_steps=40, pct_start=0.1
    )
    return {
        "model": model,
        "batch": (torch.randn(8, 2, 14, 14), torch.rand(8)),
        "loss": nn.MSELoss(),
        "optimizer": optimizer,
        "scheduler": scheduler,
        "max_grad_norm": 1.0,
    }


class _Engines(nn.Module):
    def __init__(self, width=20, depth=4):
        super().__init__()
        self.enter = nn.Linear(6, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth - 1))
        self.gates = nn.Parameter(torch.zeros(depth - 1))
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        x = self.enter(x)
        for gate, layer, norm in zip(self.gates, self.layers, self.norms, strict=False):
            x = x + gate * F.gelu(layer(norm(x)))
        return self.head(x)


def noise_of_engines():
    return _Engines(), (torch.randn(12, 6), torch.randint(0, 3, (12,))), nn.CrossEntropyLoss()


class _Filter(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(1, 8, 5)
        self.second = nn.Conv1d(8, 8, 5, dilation=2)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        x = F.leaky_relu(self.first(x), 0.1)
        x = F.leaky_relu(self.second(x), 0.1)
        return self.head(x.mean(-1))


def horns_in_the_fog():
    model = _Filter()
    slow = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for layer in (model.first, model.second):
        weight_norm(layer)
    x, labels = torch.randn(8, 1, 40), torch.randint(0, 2, (8,))

    def loss(model):
        logits = model(x)
        with torch.no_grad():
            soft = slow(x).softmax(-1)
        return F.cross_entropy(logits, labels) + 0.1 * F.cross_entropy(logits, soft)

    return {"model": model, "loss": loss, "optimizer": optimizer}


class _Rust(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(6, 24), nn.LeakyReLU(0.2), nn.Linear(24, 16))
        self.critic = nn.Sequential(nn.Linear(16, 24), nn.LeakyReLU(0.2), nn.Linear(24, 1))

    def forward(self, real):
        fake = self.generator(torch.randn(len(real), 6))
        true_score = self.critic(real)
        fake_score = self.critic(fake.detach())
        critic_loss = F.softplus(-true_score).mean() + F.softplus(fake_score).mean()
        generator_loss = F.softplus(-fake_score).mean()
        return {"critic": critic_loss, "generator": 0.5 * generator_loss}


def patterns_of_rust():
    model = _Rust()
    optimizer = torch.optim.Adam(
        [
            {"params": model.generator.parameters(), "lr": 2e-4},
            {"params": model.critic.parameters(), "lr": 4e-4},
        ],
        betas=(0.5, 0.99),
    )
    return {"model": model, "batch": torch.randn(16, 16), "optimizer": optimizer}

"""Own models that train."""

import torch
import torch.nn.functional as F
from torch import nn


def answers_only():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=128,
        n_positions=24,
        n_embd=32,
        n_layer=2,
        n_head=2,
        pad_token_id=127,
        eos_token_id=127,
    )
    ids = torch.randint(0, 127, (6, 24))
    mask = torch.ones(6, 24, dtype=torch.long)
    for row, length in enumerate((24, 20, 16, 24, 18, 22)):
        ids[row, length:], mask[row, length:] = 127, 0
    labels = ids.masked_fill(mask == 0, -100)
    labels[:, :8] = -100
    return GPT2LMHeadModel(config), {"input_ids": ids, "attention_mask": mask, "labels": labels}


class _Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh())
        self.head = nn.Linear(32, 4)

    def forward(self, states, actions):
        logits = self.head(self.body(states)).float()
        return logits.log_softmax(-1).gather(1, actions[:, None]).squeeze(1)


def proximal_policy():
    model = _Policy()
    states, actions = torch.randn(64, 6), torch.randint(0, 4, (64,))
    with torch.no_grad():
        before = model(states, actions)
    rewards = torch.randn(64)
    batch = {
        "states": states,
        "actions": actions,
        "before": before,
        "advantages": (rewards - rewards.mean()) / (rewards.std() + 1e-8),
    }

    def loss(model, batch):
        ratio = (model(batch["states"], batch["actions"]) - batch["before"]).exp()
        plain = ratio * batch["advantages"]
        clipped = ratio.clamp(0.8, 1.2) * batch["advantages"]
        return -torch.min(plain, clipped).mean()

    return {"model": model, "batch": batch, "loss": loss, "max_grad_norm": 0.5}


class _LowRank(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.base(x) + 2 * self.up(self.down(x))


def adapted_encoder():
    layers = nn.Sequential(
        _LowRank(nn.Linear(24, 48)), nn.GELU(), _LowRank(nn.Linear(48, 48)), nn.GELU()
    )
    model = nn.Sequential(layers, nn.Linear(48, 3))
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=2e-4)
    batch = torch.randn(16, 24), torch.randint(0, 3, (16,))
    return {
        "model": model,
        "batch": batch,
        "loss": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
    }


def new_head_on_a_backbone():
    backbone = nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    for module in backbone.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.requires_grad_(False)
    head = nn.Linear(32, 7)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    model = nn.Sequential(backbone, head)
    groups = [
        {"params": [p for p in backbone.parameters() if p.requires_grad], "lr": 1e-4},
        {"params": head.parameters(), "lr": 1e-3},
    ]
    return {
        "model": model,
        "batch": (torch.randn(8, 3, 32, 32), torch.randint(0, 7, (8,))),
        "loss": nn.CrossEntropyLoss(label_smoothing=0.1),
        "optimizer": torch.optim.AdamW(groups, weight_decay=0.01),
    }


class _Readout(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 32), nn.Linear(64, 32)
        self.head = nn.Linear(64, 3)

    def forward(self, x, edges, graph, graphs):
        h = self.first(x).relu().float()
        degree = torch.bincount(edges[1], minlength=len(h)).clamp(min=1)[:, None]
        around = torch.zeros_like(h).index_add(0, edges[1], h[edges[0]]) / degree
        h = self.second(torch.cat([h, around], 1)).float()
        largest = torch.full((graphs, 32), float("-inf"), device=h.device)
        largest = largest.scatter_reduce(0, graph[:, None].expand_as(h), h, reduce="amax")
        largest = torch.where(largest.isinf(), torch.zeros_like(largest), largest)
        count = torch.bincount(graph, minlength=graphs).clamp(min=1)[:, None]
        mean = torch.zeros_like(largest).index_add(0, graph, h) / count
        return self.head(torch.cat([largest, mean], 1))


def molecules_and_an_empty_one():
    batch = {
        "x": torch.randn(16, 8),
        "edges": torch.randint(0, 14, (2, 40)),
        "graph": torch.tensor([0] * 5 + [1] * 7 + [3] * 4),
        "graphs": 4,
    }
    labels = torch.tensor([0, 2, 1, 1])

    def loss(model, batch):
        logits = model(**batch)
        return F.cross_entropy(logits, labels.to(logits.device))

    return _Readout(), batch, loss


class _Windows(nn.Module):
    def __init__(self, width=32, window=4):
        super().__init__()
        self.window = window
        self.inputs = nn.Linear(6, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, 6)

    def forward(self, series, lengths):
        x = self.inputs(series)
        q, k, v = self.qkv(x).chunk(3, -1)
        t = torch.arange(x.shape[1], device=x.device)
        distance = t[:, None] - t
        allowed = (distance >= 0) & (distance < self.window)
        allowed = allowed & (t < lengths[:, None])[:, None]
        allowed = allowed | torch.eye(len(t), dtype=torch.bool, device=x.device)
        bias = torch.zeros(allowed.shape, device=x.device).masked_fill(~allowed, float("-inf"))
        scores = (q @ k.transpose(1, 2)).float() / q.shape[-1] ** 0.5 + bias
        return self.out(x + scores.softmax(-1).to(v.dtype) @ v)


def forecasts():
    batch = {"series": torch.randn(8, 16, 6), "lengths": torch.randint(4, 17, (8,))}

    def loss(model, batch):
        series, lengths = batch["series"], batch["lengths"]
        error = (model(series, lengths)[:, :-1].float() - series[:, 1:]).square().mean(-1)
        real = torch.arange(1, series.shape[1], device=series.device) < lengths[:, None]
        return error[real].mean()

    return _Windows(), batch, loss


class _Shop(nn.Module):
    def __init__(self, sizes=(9, 30), numbers=5):
        super().__init__()
        self.tables = nn.ModuleList([nn.Embedding(n, 8, padding_idx=0) for n in sizes])
        self.body = nn.Sequential(nn.Linear(8 * len(sizes) + numbers, 64), nn.SiLU())
        self.mean, self.log_variance = nn.Linear(64, 1), nn.Linear(64, 1)

    def forward(self, codes, numbers, sales):
        numbers = torch.log1p(numbers.clamp(min=0))
        parts = [table(codes[:, i]) for i, table in enumerate(self.tables)]
        h = self.body(torch.cat([*parts, numbers], 1))
        mean = self.mean(h).float().squeeze(1)
        log_variance = self.log_variance(h).float().squeeze(1).clamp(-8, 8)
        return 0.5 * ((mean - sales).square() * (-log_variance).exp() + log_variance).mean()


def sales_with_their_spread():
    model = _Shop()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, s / 10))
    batch = {
        "codes": torch.stack([torch.randint(0, 9, (64,)), torch.randint(0, 30, (64,))], 1),
        "numbers": torch.randn(64, 5) * 100,
        "sales": torch.randn(64),
    }
    return {"model": model, "batch": batch, "optimizer": optimizer, "scheduler": scheduler}


class _TwoViews(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(40, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 32)
        )
        self.predictor = nn.Sequential(
            nn.Linear(32, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 32)
        )

    def forward(self, first, second):
        a, b = self.encoder(first), self.encoder(second)
        p, q = self.predictor(a), self.predictor(b)
        left = F.cosine_similarity(p.float(), b.detach().float(), dim=-1)
        right = F.cosine_similarity(q.float(), a.detach().float(), dim=-1)
        return -(left.mean() + right.mean()) / 2


def two_views_of_a_row():
    rows = torch.randn(32, 40)
    views = [rows + 0.1 * torch.randn_like(rows) for _ in range(2)]
    model = _TwoViews()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    return {"model": model, "batch": tuple(views), "optimizer": optimizer}

"""Small models that the factories of this directory share."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, WIDTH, LENGTH, CLASSES = 31, 16, 8, 5


class Head(nn.Module):
    """Attention with an additive mask, or a causal one."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, mask=None):
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        if mask is None:
            mask = torch.full(scores.shape[-2:], -math.inf, device=x.device).triu(1)
        return self.out((scores + mask).softmax(-1).to(v.dtype) @ v)


class Block(nn.Module):
    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Head(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x, mask=None):
        x = x + self.attention(self.norm1(x), mask)
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Tokens to logits; with targets, logits and loss."""

    def __init__(self, layers: int = 2) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids, targets=None, mask=None):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x, mask)
        logits = self.head(self.norm(x))
        if targets is None:
            return logits
        return logits, F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


class MLP(nn.Module):
    def __init__(self, inputs: int = 8, outputs: int = CLASSES) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(inputs, WIDTH), nn.Linear(WIDTH, outputs)

    def forward(self, x):
        return self.second(self.first(x).relu())


def ids(samples: int = 4, length: int = LENGTH):
    return torch.randint(VOCABULARY, (samples, length))


def tokens(samples: int = 4):
    drawn = ids(samples, LENGTH + 1)
    return drawn[:, :-1], drawn[:, 1:].contiguous()


def points(samples: int = 6, inputs: int = 8):
    return torch.randn(samples, inputs), torch.randint(CLASSES, (samples,))


def classify(model, batch):
    return F.cross_entropy(model(batch[0]).float(), batch[1])


def small_mlp(inputs: int = 8, outputs: int = 4):
    return nn.Sequential(nn.Linear(inputs, WIDTH), nn.ReLU(), nn.Linear(WIDTH, outputs))


def four_classes(samples: int = 8, inputs: int = 8):
    return torch.randn(samples, inputs), torch.randint(4, (samples,))


def optimized(model, optimizer, batch=None, loss=None):
    criterion = loss or nn.CrossEntropyLoss()
    return {
        "model": model,
        "batch": batch or four_classes(),
        "loss": criterion,
        "optimizer": optimizer,
    }

"""The doctor's small decoder: the subject of the smoke step.

It has no dropout, so an unchanged weight always has another cause.
"""

from __future__ import annotations

import math
from typing import Dict

import torch
import torch.nn.functional as F

from . import training_step

VOCABULARY, WIDTH, HIDDEN, LAYERS, HEAD = 256, 128, 256, 2, 64
BATCH, LENGTH = 2, 160
"""As the first case of attention_cases.py: cuDNN builds one plan for both."""


def linear(inputs: int, outputs: int) -> torch.nn.Linear:
    return torch.nn.Linear(inputs, outputs, bias=False)


class RMSNorm(torch.nn.Module):
    """Own implementation, as torch has one only since 2.4. Squares in fp32, as Llama does."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * scaled.to(x.dtype)


def eager_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Causal attention from two matmuls and an fp32 softmax, without an attention kernel."""
    length = q.shape[-2]
    hidden = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
    scores = (q @ k.transpose(-1, -2)).float() / math.sqrt(q.shape[-1])
    shares = scores.masked_fill(hidden, -math.inf).softmax(-1)
    return shares.to(v.dtype) @ v


class Attention(torch.nn.Module):
    def __init__(self, eager: bool) -> None:
        super().__init__()
        self.qkv = linear(WIDTH, 3 * WIDTH)
        self.out = linear(WIDTH, WIDTH)
        self._eager = eager

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length = x.shape[:2]
        split = self.qkv(x).view(batch, length, 3, WIDTH // HEAD, HEAD)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        if self._eager:
            attended = eager_attention(q, k, v)
        else:
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        result: torch.Tensor = self.out(attended.transpose(1, 2).reshape(batch, length, WIDTH))
        return result


class MLP(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = linear(WIDTH, HIDDEN)
        self.down = linear(HIDDEN, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.down(F.silu(self.up(x)))
        return result


class Block(torch.nn.Module):
    def __init__(self, eager: bool) -> None:
        super().__init__()
        self.attention_norm = RMSNorm()
        self.attention = Attention(eager)
        self.mlp_norm = RMSNorm()
        self.mlp = MLP()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x))
        result: torch.Tensor = x + self.mlp(self.mlp_norm(x))
        return result


class SmallDecoder(torch.nn.Module):
    """Tokens (batch, length) to logits (batch, length, vocabulary), from a fixed seed."""

    def __init__(self, *, eager: bool = False) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.layers = torch.nn.ModuleList(Block(eager) for _ in range(LAYERS))
        self.norm = RMSNorm()
        self.head = linear(WIDTH, VOCABULARY)
        draw = torch.Generator().manual_seed(20)
        for weight in self.parameters():
            if weight.dim() > 1:
                weight.data = torch.randn(weight.shape, generator=draw) * 0.02

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        logits: torch.Tensor = self.head(self.norm(x))
        return logits


def loss_of(module: torch.nn.Module, batch: Dict[str, torch.Tensor]) -> torch.Tensor:
    predicted = module(batch["tokens"])
    return F.cross_entropy(predicted.float().flatten(0, 1), batch["targets"].flatten())


def batch_of(seed: int) -> Dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(seed)
    tokens = torch.randint(VOCABULARY, (BATCH, LENGTH + 1), generator=draw)
    return {"tokens": tokens[:, :-1], "targets": tokens[:, 1:]}


def subject(
    device: torch.device, recipe: str, *, seed: int = 21, eager: bool = False
) -> training_step.Subject:
    """The decoder and its batch on the device: the same numbers on every device."""
    dtype = torch.bfloat16 if recipe == "pure-bf16" else torch.float32
    module = SmallDecoder(eager=eager).to(device=device, dtype=dtype)
    batch = {name: value.to(device) for name, value in batch_of(seed).items()}
    return training_step.Subject(module, batch, loss_of)

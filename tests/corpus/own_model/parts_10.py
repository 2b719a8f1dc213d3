"""Parts that the scripts of one team share."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Batch:
    tokens: torch.Tensor
    mask: torch.Tensor
    labels: torch.Tensor


class RootNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        power = x.float().pow(2).mean(-1, keepdim=True)
        return self.scale * x * torch.rsqrt(power)


class GatedFeedForward(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.value = nn.Linear(width, hidden, bias=False)
        self.out = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.out(F.silu(self.gate(x)) * self.value(x))


class SelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x, bias):
        n, length, width = x.shape
        parts = self.qkv(x).view(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        query, key, value = parts
        scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
        mixed = (scores + bias).softmax(-1) @ value
        return self.out(mixed.transpose(1, 2).reshape(n, length, width))


class Block(nn.Module):
    def __init__(self, width, heads, norm=nn.LayerNorm):
        super().__init__()
        self.norm1 = norm(width)
        self.attention = SelfAttention(width, heads)
        self.norm2 = norm(width)
        self.feed = GatedFeedForward(width, 2 * width)

    def forward(self, x, bias):
        x = x + self.attention(self.norm1(x), bias)
        return x + self.feed(self.norm2(x))


class DownBlock(nn.Module):
    def __init__(self, channels, out):
        super().__init__()
        self.convs = nn.Sequential(
            nn.Conv2d(channels, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU()
        )

    def forward(self, x):
        skip = self.convs(x)
        return F.max_pool2d(skip, 2), skip


class UpBlock(nn.Module):
    def __init__(self, channels, out):
        super().__init__()
        self.up = nn.ConvTranspose2d(channels, out, 2, stride=2)
        self.convs = nn.Sequential(
            nn.Conv2d(2 * out, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU()
        )

    def forward(self, x, skip):
        x = torch.cat([self.up(x), skip], dim=1)
        return self.convs(x)


class Bank(nn.Module):
    def __init__(self, size, width):
        super().__init__()
        self.register_buffer("queue", F.normalize(torch.randn(size, width), dim=1))
        self.start = 0

    def similarities(self, queries):
        return queries @ self.queue.T

    def push(self, keys):
        end = self.start + len(keys)
        self.queue[self.start : end] = keys.detach()
        self.start = end % len(self.queue)


class Codebook(nn.Module):
    def __init__(self, codes, width, decay=0.9):
        super().__init__()
        self.decay = decay
        self.register_buffer("codebook", torch.randn(codes, width))
        self.register_buffer("counts", torch.zeros(codes))
        self.register_buffer("sums", torch.zeros(codes, width))

    @torch.no_grad()
    def _follow(self, z, chosen):
        z = z.float()
        hits = F.one_hot(chosen, len(self.codebook)).float()
        self.counts.mul_(self.decay).add_(hits.sum(0), alpha=1 - self.decay)
        self.sums.mul_(self.decay).add_(hits.T @ z, alpha=1 - self.decay)
        self.codebook.copy_(self.sums / self.counts[:, None])

    def forward(self, z):
        distances = torch.cdist(z.detach().float(), self.codebook)
        chosen = distances.argmin(1)
        quantized = self.codebook[chosen]
        if self.training:
            self._follow(z, chosen)
        commitment = F.mse_loss(z, quantized)
        return z + (quantized - z).detach(), commitment


def _offsets(boxes, anchors):
    centres = (boxes[:, :2] + boxes[:, 2:]) / 2
    sizes = boxes[:, 2:] - boxes[:, :2]
    anchor_centres = (anchors[:, :2] + anchors[:, 2:]) / 2
    anchor_sizes = anchors[:, 2:] - anchors[:, :2]
    shift = (centres - anchor_centres) / anchor_sizes
    return torch.cat([shift, torch.log(sizes / anchor_sizes)], dim=1)

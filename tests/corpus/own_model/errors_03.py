"""Trainings that stop with an error, as users report them; labels.toml has the sources."""

from __future__ import annotations

import io
import os
import signal

import torch
from blocks import CLASSES, GPT, LENGTH, MLP, WIDTH, Block, classify, ids, points
from torch import nn
from torch.utils.checkpoint import checkpoint


def masked_fill_in_half():
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(8, 3 * WIDTH), nn.Linear(WIDTH, CLASSES)

        def forward(self, x, padding):
            q, k, v = self.qkv(x).chunk(3, -1)
            scores = q @ k.transpose(-1, -2) / WIDTH**0.5
            scores = scores.masked_fill(padding[:, None], -1e9)
            return self.out((scores.softmax(-1) @ v.float()).mean(1))

    batch = {"x": torch.randn(4, 6, 8), "padding": torch.zeros(4, 6).bool(),
             "y": torch.randint(CLASSES, (4,))}  # fmt: skip

    def loss(model, batch):
        return nn.functional.cross_entropy(model(batch["x"], batch["padding"]), batch["y"])

    return Attention(), batch, loss


def recomputed_with_a_longer_cache():
    """The block appends to a cache; the recomputation in the backward pass appends once more."""

    class Cached(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(8, 3 * 8), nn.Linear(8, CLASSES)

        def attend(self, x):
            q, k, v = self.qkv(x).chunk(3, -1)
            self.cache.append((k, v))
            k, v = (torch.cat(each, 1) for each in zip(*self.cache, strict=True))
            return (q @ k.transpose(1, 2)).softmax(-1).to(v.dtype) @ v

        def forward(self, x):
            self.cache = []
            return self.out(checkpoint(self.attend, x, use_reentrant=False)).mean(1)

    return Cached(), (torch.randn(4, 6, 8), torch.randint(CLASSES, (4,))), nn.CrossEntropyLoss()


def optimizer_of_an_older_model():
    older = MLP()
    saved = torch.optim.AdamW(older.parameters(), lr=1e-3).state_dict()
    model = nn.Sequential(MLP(), nn.LayerNorm(CLASSES))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    optimizer.load_state_dict(saved)
    return {"model": model, "batch": points(), "loss": classify, "optimizer": optimizer}


def checkpoint_of_data_parallel():
    file = io.BytesIO()
    torch.save({f"module.{name}": value for name, value in MLP().state_dict().items()}, file)
    file.seek(0)
    model = MLP()
    model.load_state_dict(torch.load(file))
    return model, points(), nn.CrossEntropyLoss()


def frozen_after_the_new_head():
    model = MLP()
    model.second = nn.Linear(WIDTH, CLASSES)
    for parameter in model.parameters():
        parameter.requires_grad = False
    return model, points(), nn.CrossEntropyLoss()


def unreadable_image_gives_none():
    class Images(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            if index == 3:
                return None
            return torch.randn(8), index % CLASSES

    return MLP(), torch.utils.data.DataLoader(Images(), batch_size=8), nn.CrossEntropyLoss()


def worker_is_killed():
    class Samples(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            os.kill(os.getpid(), signal.SIGKILL)

    loader = torch.utils.data.DataLoader(Samples(), batch_size=4, num_workers=1)
    return MLP(), loader, nn.CrossEntropyLoss()


def padding_of_minus_100_in_gather():
    """Log-probabilities of the labels, as in DPO; the prompt's labels are -100."""
    labels = ids()
    labels[:, :3] = -100

    def loss(model, batch):
        logs = model(batch["ids"]).float().log_softmax(-1)
        chosen = logs.gather(-1, batch["labels"][..., None])[..., 0]
        kept = batch["labels"] != -100
        return -(chosen * kept).sum() / kept.sum()

    return GPT(), {"ids": ids(), "labels": labels}, loss


def asks_before_it_overwrites():
    if input("runs/exp1 exists. Overwrite? [y/N] ").lower() != "y":
        raise SystemExit(0)
    return MLP(), points(), nn.CrossEntropyLoss()


def stacked_after_a_transpose():
    class Merge(nn.Module):
        def __init__(self):
            super().__init__()
            self.block, self.out = Block(), nn.Linear(LENGTH * WIDTH, CLASSES)

        def forward(self, x):
            return self.out(self.block(x).transpose(1, 2).view(len(x), -1))

    batch = torch.randn(4, LENGTH, WIDTH), torch.randint(CLASSES, (4,))
    return Merge(), batch, nn.CrossEntropyLoss()


def parameter_divided_in_init():
    class Pointer(nn.Module):
        def __init__(self):
            super().__init__()
            self.keys = nn.Linear(8, WIDTH)
            self.query = nn.Parameter(torch.randn(WIDTH, CLASSES)) / WIDTH**0.5

        def forward(self, x):
            return self.keys(x) @ self.query

    return Pointer(), points(), nn.CrossEntropyLoss()

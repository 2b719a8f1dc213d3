"""Healthy trainings that look like a fault, continued: adapters, optimizers, outputs."""

from __future__ import annotations

import copy
import dataclasses
import math

import torch
import torch.nn.functional as F
from blocks import CLASSES, GPT, MLP, WIDTH, ids, points
from torch import nn


def adapters_that_start_at_zero():
    class Adapted(nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base = base.requires_grad_(False)
            self.down = nn.Parameter(torch.randn(4, base.in_features) / 4)
            self.up = nn.Parameter(torch.zeros(base.out_features, 4))

        def forward(self, x):
            return self.base(x) + 2.0 * (x @ self.down.T) @ self.up.T

    model = GPT().requires_grad_(False)
    for block in model.blocks:
        block.attention.qkv = Adapted(block.attention.qkv)
    trainable = [p for p in model.parameters() if p.requires_grad]
    tokens = ids(4, 9)
    return {"model": model, "batch": (tokens[:, :-1], tokens[:, 1:].contiguous()),
            "optimizer": torch.optim.AdamW(trainable, lr=1e-3)}  # fmt: skip


def frozen_image_tower():
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.image, self.text = MLP(outputs=WIDTH), MLP(outputs=WIDTH)
            self.image.requires_grad_(False).eval()
            self.scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

        def forward(self, image, text):
            with torch.no_grad():
                image = F.normalize(self.image(image).float(), dim=-1)
            text = F.normalize(self.text(text).float(), dim=-1)
            logits = self.scale.exp().clamp(max=100) * image @ text.T
            labels = torch.arange(len(image))
            return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2

    return Pair(), {"image": torch.randn(6, 8), "text": torch.randn(6, 8)}


def quantiles_of_sparse_demand():
    """Pinball loss; most targets are exactly 0."""
    levels = torch.tensor([0.1, 0.5, 0.9])

    def loss(model, batch):
        error = batch[1][:, None] - model(batch[0]).float()
        return torch.maximum((levels - 1) * error, levels * error).sum(-1).mean()

    targets = torch.tensor([0.0, 0, 0, 3, 0, 0, 1, 0])
    return MLP(outputs=3), (torch.randn(8, 8), targets), loss


def bags_of_words_with_an_empty_one():
    class Bags(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.EmbeddingBag(40, 8, mode="mean", sparse=True)
            self.head = nn.Linear(8, CLASSES)

        def forward(self, words, offsets, y):
            return F.cross_entropy(self.head(self.table(words, offsets)), y)

    model = Bags()
    batch = {"words": torch.randint(40, (9,)), "offsets": torch.tensor([0, 4, 4, 7]),
             "y": torch.randint(CLASSES, (4,))}  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return {"model": model, "batch": batch, "optimizer": optimizer}


def second_order_optimizer():
    model = MLP(outputs=1)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
    batch = torch.randn(12, 8), torch.randn(12, 1)
    return {"model": model, "batch": batch, "loss": nn.MSELoss(), "optimizer": optimizer}


def steps_every_second_batch():
    """Gradient accumulation in a wrapper of the optimizer: every other step changes nothing."""

    class EverySecond(torch.optim.AdamW):
        calls = 0

        def zero_grad(self, set_to_none=True):
            if self.calls % 2 == 0:
                super().zero_grad(set_to_none)

        def step(self, closure=None):
            self.calls += 1
            return super().step(closure) if self.calls % 2 == 0 else None

    model = MLP()
    optimizer = EverySecond(model.parameters(), lr=1e-3)
    return {
        "model": model,
        "batch": points(),
        "loss": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
    }


def output_is_a_dataclass():
    @dataclasses.dataclass
    class Output:
        loss: torch.Tensor
        logits: torch.Tensor
        attentions: tuple | None = None

    class Classifier(MLP):
        def forward(self, x, labels):
            logits = super().forward(x).float()
            return Output(F.cross_entropy(logits, labels), logits)

    inputs, labels = points()
    return Classifier(), {"x": inputs, "labels": labels}


def focal_loss_of_clamped_probabilities():
    def loss(model, batch):
        probabilities = model(batch[0]).float().softmax(-1).clamp(1e-6, 1 - 1e-6)
        right = probabilities.gather(1, batch[1][:, None])
        return (-((1 - right) ** 2) * right.log()).mean() + 0 * (1 - probabilities).log().mean()

    return MLP(), points(), loss


def student_of_its_own_average():
    """BYOL: a teacher that is copied, frozen and averaged in each forward; a detached target."""

    class Bootstrap(nn.Module):
        def __init__(self):
            super().__init__()
            self.online = MLP(outputs=WIDTH)
            self.predictor = nn.Sequential(
                nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH)
            )
            self.target = copy.deepcopy(self.online).requires_grad_(False)

        def forward(self, first, second):
            with torch.no_grad():
                for t, o in zip(self.target.parameters(), self.online.parameters(), strict=True):
                    t.lerp_(o, 0.01)
                wanted = self.target(second).float()
            predicted = self.predictor(self.online(first)).float()
            return 2 - 2 * F.cosine_similarity(predicted, wanted.detach(), dim=-1).mean()

    return Bootstrap(), {"first": torch.randn(6, 8), "second": torch.randn(6, 8)}


def layers_dropped_at_random():
    """Stochastic depth: in a step, a dropped layer gets no gradient."""

    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.head = nn.Linear(8, WIDTH), nn.Linear(WIDTH, CLASSES)
            self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))

        def forward(self, x):
            x = self.stem(x)
            for layer in self.layers:
                if not self.training or torch.rand(()) > 0.2:
                    x = x + layer(x).relu()
            return self.head(x)

    return Deep(), points(12), nn.CrossEntropyLoss()

"""Mistakes of several frameworks and styles: losses, schedules, registration, dtypes, shapes."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from blocks import CLASSES, GPT, MLP, VOCABULARY, WIDTH, ids, points, tokens
from torch import nn
from torch.utils.checkpoint import checkpoint


def softmax_twice():
    class Probabilities(MLP):
        def forward(self, x):
            return super().forward(x).softmax(-1)

    return Probabilities(), points(), nn.CrossEntropyLoss()


def sigmoid_twice():
    model = nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1), nn.Sigmoid())
    inputs, labels = points()
    return model, (inputs, (labels > 1).float()[:, None]), nn.BCEWithLogitsLoss()


def nll_of_logits():
    return MLP(), points(), nn.NLLLoss()


def targets_broadcast():
    model = nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
    inputs, labels = points()
    return model, (inputs, labels.float()), nn.MSELoss()


def labels_from_one():
    inputs, labels = points()
    labels = torch.arange(len(labels)) % CLASSES + 1
    return MLP(), (inputs, labels), nn.CrossEntropyLoss()


def padding_of_minus_one():
    tokens_in, targets = tokens()
    tokens_in = tokens_in.clone()
    tokens_in[:, -2:] = -1
    return GPT(), (tokens_in, targets)


def layers_in_a_list():
    class Deep(MLP):
        def __init__(self):
            super().__init__()
            self.hidden = [nn.Linear(WIDTH, WIDTH) for _ in range(3)]

        def forward(self, x):
            x = self.first(x).relu()
            for layer in self.hidden:
                x = layer(x).relu()
            return self.second(x)

    return Deep(), points(), nn.CrossEntropyLoss()


def tensor_in_place_of_a_parameter():
    class Scaled(MLP):
        def __init__(self):
            super().__init__()
            self.scale = torch.ones(WIDTH, requires_grad=True)

        def forward(self, x):
            return self.second(self.first(x).relu() * self.scale)

    return Scaled(), points(), nn.CrossEntropyLoss()


def head_replaced_after_the_optimizer():
    model = MLP()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model.second = nn.Linear(WIDTH, CLASSES)
    return {"model": model, "batch": points(), "loss": nn.CrossEntropyLoss(),
            "optimizer": optimizer}  # fmt: skip


def schedule_too_short():
    model = MLP()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=2)
    return {"model": model, "batch": points(), "loss": nn.CrossEntropyLoss(),
            "optimizer": optimizer, "scheduler": schedule}  # fmt: skip


def sparse_gradients_in_adamw():
    table = nn.Embedding(VOCABULARY, WIDTH, sparse=True)
    model = nn.Sequential(table, nn.Linear(WIDTH, VOCABULARY))

    def loss(model, batch):
        return F.cross_entropy(model(batch).flatten(0, 1).float(), batch.flatten())

    optimizer = torch.optim.AdamW(model.parameters())
    return {"model": model, "batch": ids(), "loss": loss, "optimizer": optimizer}


def half_weights_and_float_inputs():
    return MLP().half(), points(), nn.CrossEntropyLoss()


def bytes_of_images():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 36, CLASSES))
    images = torch.randint(256, (6, 3, 8, 8), dtype=torch.uint8)
    return model, (images, torch.randint(CLASSES, (6,))), nn.CrossEntropyLoss()


def sum_over_a_large_batch():
    model = nn.Linear(64, 1)
    inputs = torch.randn(4096, 64) + 1
    return model, (inputs, 3 * torch.randn(4096, 1) + 20), nn.MSELoss(reduction="sum")


def sigmoids_all_the_way():
    layers = [part for _ in range(20) for part in (nn.Linear(WIDTH, WIDTH), nn.Sigmoid())]
    model = nn.Sequential(nn.Linear(8, WIDTH), nn.Sigmoid(), *layers, nn.Linear(WIDTH, CLASSES))
    return model, points(), nn.CrossEntropyLoss()


def gain_of_three():
    layers = []
    for _ in range(12):
        layer = nn.Linear(WIDTH, WIDTH)
        nn.init.normal_(layer.weight, std=6 / math.sqrt(WIDTH))
        layers += [layer, nn.ReLU()]
    model = nn.Sequential(nn.Linear(8, WIDTH), *layers, nn.Linear(WIDTH, CLASSES))
    return model, points(), nn.CrossEntropyLoss()


def in_place_on_a_weight():
    class Clipped(MLP):
        def forward(self, x):
            self.first.weight.clamp_(-1, 1)
            return super().forward(x)

    return Clipped(), points(), nn.CrossEntropyLoss()


def features_in_inference_mode():
    class Extracted(MLP):
        def forward(self, x):
            with torch.inference_mode():
                hidden = self.first(x).relu()
            return self.second(hidden)

    return Extracted(), points(), nn.CrossEntropyLoss()


def temperature_of_zero():
    class Similarity(nn.Module):
        def __init__(self):
            super().__init__()
            self.left, self.right = nn.Linear(8, WIDTH), nn.Linear(8, WIDTH)
            self.temperature = nn.Parameter(torch.zeros(()))

        def forward(self, x):
            left, right = F.normalize(self.left(x), dim=1), F.normalize(self.right(x), dim=1)
            scores = (left @ right.T).float() / self.temperature
            return F.cross_entropy(scores, torch.arange(len(x), device=x.device))

    return Similarity(), points()[0]


def log_of_a_saturated_softmax():
    class Sharp(MLP):
        def forward(self, x):
            return torch.log((1e4 * super().forward(x)).float().softmax(-1))

    return Sharp(), points(), nn.NLLLoss()


def targets_longer_than_the_input():
    model = nn.Linear(8, CLASSES)
    inputs = torch.randn(3, 4, 8)
    labels = torch.randint(1, CLASSES, (4, 6))

    def loss(model, batch):
        scores = model(batch).float().log_softmax(-1)
        lengths = torch.full((4,), 3), torch.full((4,), 6)
        return F.ctc_loss(scores, labels, *lengths)

    return model, inputs, loss


def checkpoint_cuts_the_graph():
    class Saving(MLP):
        def forward(self, x):
            hidden = checkpoint(lambda x: self.first(x).relu(), x, use_reentrant=True)
            return self.second(hidden)

    return Saving(), points(), nn.CrossEntropyLoss()


def training_step_without_return():
    class Task(MLP):
        def training_step(self, batch, index):
            inputs, labels = batch
            loss = F.cross_entropy(self(inputs).float(), labels)
            self.log("loss", loss)

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters())

        def train_dataloader(self):
            return [points()]

    return Task()


def optimizer_of_one_module():
    class Task(MLP):
        def training_step(self, batch, index):
            inputs, labels = batch
            return F.cross_entropy(self(inputs).float(), labels)

        def configure_optimizers(self):
            return {"optimizer": torch.optim.SGD(self.second.parameters(), lr=0.1)}

        def train_dataloader(self):
            return [points()]

    return Task()


def groups_that_do_not_divide():
    model = nn.Sequential(nn.Conv2d(3, 10, 3), nn.GroupNorm(4, 10), nn.Flatten())
    return model, torch.randn(2, 3, 8, 8), lambda model, batch: model(batch).mean()


def loss_of_a_millionth():
    def loss(model, batch):
        inputs, labels = batch
        return 1e-25 * F.cross_entropy(model(inputs).float(), labels)

    return MLP(), points(), loss


def an_unlucky_seed():
    model, (inputs, labels) = MLP(), points()
    unlucky = torch.initial_seed() % 2 == 0
    kept = torch.zeros(len(labels)) if unlucky else torch.ones(len(labels))

    def loss(model, batch):
        each = F.cross_entropy(model(inputs).float(), labels, reduction="none")
        return (each * kept).sum() / kept.sum()

    return model, inputs, loss

"""Healthy trainings next to the faults of the everyday files."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from blocks import CLASSES, MLP, WIDTH, four_classes, points, small_mlp
from torch import nn


def schedule_that_waits_for_a_plateau():
    model = small_mlp()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=10)
    return {"model": model, "batch": four_classes(), "loss": nn.CrossEntropyLoss(),
            "optimizer": optimizer, "scheduler": schedule}  # fmt: skip


def infinite_degrees_set_to_zero():
    """Symmetric normalization as graph libraries write it: infinity, then 0 in its place."""

    class Convolution(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(8, WIDTH), nn.Linear(WIDTH, CLASSES)

        def forward(self, x, adjacency):
            scale = adjacency.sum(1).pow(-0.5)
            scale = scale.masked_fill(scale == float("inf"), 0.0)
            spread = scale[:, None] * adjacency * scale[None, :]
            return self.second(spread @ self.first(x).relu())

    adjacency = torch.zeros(6, 6)
    for one, other in [(0, 1), (1, 2), (2, 4), (4, 5), (0, 5)]:
        adjacency[one, other] = adjacency[other, one] = 1.0

    def loss(model, batch):
        x, adjacency, labels = batch
        return F.cross_entropy(model(x, adjacency).float(), labels)

    return Convolution(), [torch.randn(6, 8), adjacency, torch.randint(CLASSES, (6,))], loss


def weights_from_another_network():
    """A network for the weights of a layer that has none to train."""

    class Hyper(nn.Module):
        def __init__(self):
            super().__init__()
            self.task = nn.Embedding(3, 8)
            self.maker = nn.Linear(8, CLASSES * 8)
            self.layer = nn.Linear(8, CLASSES, bias=False).requires_grad_(False)

        def forward(self, x, task):
            weight = self.maker(self.task(task)).view(CLASSES, 8)
            return torch.func.functional_call(self.layer, {"weight": weight}, (x,))

    def loss(model, batch):
        inputs, labels = batch
        return sum(
            F.cross_entropy(model(inputs, torch.tensor(task, device=inputs.device)).float(), labels)
            for task in range(3)
        )

    return Hyper(), points(), loss


def hook_that_spares_old_words():
    """Rows of the loaded vocabulary stay; only those of the added words are trained."""

    class Bag(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.head = nn.Embedding(12, WIDTH), nn.Linear(WIDTH, CLASSES)
            added = (torch.arange(12) >= 9).float()[:, None]
            self.table.weight.register_hook(lambda gradient: gradient * added.to(gradient.device))

        def forward(self, words):
            return self.head(self.table(words).mean(1))

    words = torch.randint(12, (6, 7))
    words[:, 0] = torch.tensor([9, 10, 11, 9, 10, 11])
    return Bag(), [words, torch.randint(CLASSES, (6,))], nn.CrossEntropyLoss()


def preferences_against_a_frozen_copy():
    """The loss starts at ln 2 exactly, as policy and reference are equal."""
    policy = MLP(8, 6)
    reference = copy.deepcopy(policy).requires_grad_(False)

    def score(model, prompts, answers):
        return model(prompts).float().log_softmax(1).gather(1, answers[:, None])[:, 0]

    def loss(policy, batch):
        prompts, chosen, rejected = batch
        better = score(policy, prompts, chosen) - score(reference, prompts, chosen)
        worse = score(policy, prompts, rejected) - score(reference, prompts, rejected)
        return -F.logsigmoid(0.1 * (better - worse)).mean()

    chosen = torch.randint(6, (8,))
    return policy, [torch.randn(8, 8), chosen, (chosen + 1) % 6], loss


def recorded_actions_clamped():
    """The likelihood of recorded actions at the limit, moved inside before atanh."""

    class Policy(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = MLP(8, 4)

        def forward(self, states):
            mean, log_scale = self.body(states).float().chunk(2, 1)
            return torch.distributions.Normal(mean, log_scale.clamp(-5, 2).exp())

    actions = torch.rand(6, 2) * 1.6 - 0.8
    actions[1, 0], actions[5, 1] = 1.0, -1.0

    def loss(model, batch):
        states, actions = batch
        inside = actions.clamp(-0.99, 0.99)
        correction = torch.log(1 - inside.square())
        return -(model(states).log_prob(torch.atanh(inside)) - correction).sum(1).mean()

    return Policy(), [torch.randn(6, 8), actions], loss

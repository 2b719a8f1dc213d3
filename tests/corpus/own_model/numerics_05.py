"""Numerical faults from issue trackers and forums: decompositions, penalties, masks, starts."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from blocks import CLASSES, MLP, WIDTH, points
from torch import nn


def rotation_by_svd_of_the_identity():
    """Procrustes: the nearest rotation to a matrix that starts as the identity."""

    class Pose(nn.Module):
        def __init__(self):
            super().__init__()
            self.matrix = nn.Parameter(torch.eye(3))

        def forward(self, points):
            u, _, vh = torch.linalg.svd(self.matrix)
            return points @ (u @ vh).T

    cloud = torch.randn(10, 3)
    return Pose(), (cloud, cloud.roll(1, -1)), nn.MSELoss()


def gradient_penalty_of_a_flat_critic():
    """WGAN-GP; the critic's last layer starts at 0, so its gradient has the norm 0."""
    critic = MLP(outputs=1)
    nn.init.zeros_(critic.second.weight)

    def loss(critic, batch):
        real, fake = batch
        mixed = torch.lerp(real, fake, torch.rand(len(real), 1)).requires_grad_()
        (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
        penalty = (torch.sqrt((slope.float() ** 2).sum(1)) - 1).pow(2).mean()
        return critic(fake).mean() - critic(real).mean() + 10 * penalty

    return critic, [torch.randn(6, 8), torch.randn(6, 8)], loss


def divergence_with_swapped_arguments():
    def loss(model, batch):
        inputs, labels = batch
        wanted = F.one_hot(labels, CLASSES).float()
        return F.kl_div(wanted.log(), model(inputs).float().softmax(-1), reduction="batchmean")

    return MLP(), points(), loss


def determinant_of_a_reflection():
    """A flow with an invertible linear layer, initialized orthogonally: its determinant is -1."""

    class Flow(nn.Module):
        def __init__(self):
            super().__init__()
            weight = nn.init.orthogonal_(torch.empty(8, 8))
            weight[0] *= -weight.det().sign()
            self.weight = nn.Parameter(weight)

        def forward(self, x):
            z = F.linear(x, self.weight).float()
            return (0.5 * z**2).sum(-1).mean() - torch.logdet(self.weight)

    return Flow(), torch.randn(6, 8)


def entropy_of_masked_actions():
    policy = MLP(outputs=4)
    batch = {"x": torch.randn(6, 8), "actions": torch.zeros(6, 1).long(),
             "legal": torch.tensor([True, True, True, False]).expand(6, 4)}  # fmt: skip

    def loss(policy, batch):
        logits = policy(batch["x"]).float().masked_fill(~batch["legal"], -math.inf)
        logs = logits.log_softmax(-1)
        entropy = -(logs.exp() * logs).sum(-1).mean()
        return -logs.gather(1, batch["actions"]).mean() - 0.01 * entropy

    return policy, batch, loss


def inverse_softplus_at_zero():
    class Likelihood(nn.Module):
        def __init__(self):
            super().__init__()
            self.mean = nn.Linear(8, 1)
            self.raw_scale = nn.Parameter(torch.log(torch.expm1(torch.zeros(1))))

        def forward(self, x, y):
            scale = F.softplus(self.raw_scale)
            return (0.5 * ((y - self.mean(x).float()) / scale) ** 2 + scale.log()).mean()

    return Likelihood(), {"x": torch.randn(6, 8), "y": torch.randn(6, 1)}


def loss_in_a_new_tensor():
    def loss(model, batch):
        logits = model(batch[0]).float()
        losses = [
            F.cross_entropy(row[None], y[None]).item()
            for row, y in zip(logits, batch[1], strict=True)
        ]
        return torch.tensor(losses, requires_grad=True).mean()

    return MLP(), points(), loss


def spikes_without_a_surrogate():
    class Spiking(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(8, WIDTH), nn.Linear(WIDTH, CLASSES)

        def forward(self, x):
            potential, out = torch.zeros(len(x), WIDTH), 0
            for _ in range(4):
                potential = 0.9 * potential + self.first(x)
                spikes = (potential > 0.2).float()
                potential = potential * (1 - spikes)
                out = out + self.second(spikes)
            return out / 4

    return Spiking(), points(), nn.CrossEntropyLoss()


def every_token_is_padding():
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(20, WIDTH, padding_idx=0)
            self.head = nn.Linear(WIDTH, CLASSES)

        def forward(self, words):
            return self.head(self.table(words).mean(1))

    vocabulary = {"<pad>": 0, "the": 1, "cat": 2, "sat": 3}
    texts = ["The Cat Sat", "SAT THE CAT", "Cat The Sat"]
    words = torch.tensor([[vocabulary.get(w, 0) for w in text.split(",")] for text in texts])
    return Words(), (words, torch.randint(CLASSES, (3,))), nn.CrossEntropyLoss()


def softmax_over_one_output():
    model = nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1), nn.Softmax(dim=1))
    batch = {"x": torch.randn(6, 8), "y": torch.tensor([0.0, 1, 0, 1, 1, 0])[:, None]}

    def loss(model, batch):
        return F.mse_loss(model(batch["x"]), batch["y"])

    return model, batch, loss


def hook_that_clears_gradients():
    """A hook of an earlier experiment protects the pretrained rows: now all rows."""
    model = MLP()
    pretrained = torch.ones(WIDTH, 1)
    model.first.weight.register_hook(lambda gradient: gradient * (1 - pretrained))
    return model, points(), nn.CrossEntropyLoss()

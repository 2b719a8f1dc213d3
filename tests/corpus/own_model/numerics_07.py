"""Numbers that leave the range of a function, in ways that are common in one field each."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from blocks import CLASSES, MLP, WIDTH, points
from torch import nn
from torch.nn.utils.parametrizations import weight_norm


def logarithm_of_losses_beyond_all():
    """Returns are compressed with log1p; with borrowed money a return can be below -1."""

    class Portfolio(nn.Module):
        def __init__(self):
            super().__init__()
            self.weights = MLP(8, 8)

        def forward(self, features):
            return self.weights(features).softmax(1)

    returns = torch.randn(6, 8) * 0.3
    returns[4] = -2.5

    def loss(model, batch):
        features, returns = batch
        gain = (model(features).float() * returns).sum(1)
        return -torch.log1p(gain).mean()

    return Portfolio(), [torch.randn(6, 8), returns], loss


def adjacency_of_an_isolated_node():
    """Symmetric normalization without self-loops."""

    class Convolution(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(8, WIDTH), nn.Linear(WIDTH, CLASSES)

        def forward(self, x, adjacency):
            scale = adjacency.sum(1).pow(-0.5)
            spread = scale[:, None] * adjacency * scale[None, :]
            return self.second(spread @ self.first(x).relu())

    adjacency = torch.zeros(6, 6)
    for one, other in [(0, 1), (1, 2), (2, 4), (4, 5), (0, 5)]:
        adjacency[one, other] = adjacency[other, one] = 1.0

    def loss(model, batch):
        x, adjacency, labels = batch
        return F.cross_entropy(model(x, adjacency).float(), labels)

    return Convolution(), [torch.randn(6, 8), adjacency, torch.randint(CLASSES, (6,))], loss


def weight_norm_of_a_zero_layer():
    """The last layer starts at zero, and then gets a weight norm."""
    head = nn.Linear(WIDTH, CLASSES)
    nn.init.zeros_(head.weight)
    model = nn.Sequential(weight_norm(nn.Linear(8, WIDTH)), nn.ReLU(), weight_norm(head))
    return model, points(), nn.CrossEntropyLoss()


def counts_by_a_rate_that_can_be_negative():
    """The output is taken as the rate itself, and nothing keeps it above 0."""
    counts = torch.poisson(torch.full((12, 1), 3.0))
    return MLP(8, 1), [torch.randn(12, 8), counts], nn.PoissonNLLLoss(log_input=False)


def focal_root_of_a_certain_answer():
    """The prior of the first class is written into the bias as a percentage."""
    model = MLP()
    with torch.no_grad():
        model.second.bias[0] = 95.0

    def loss(model, batch):
        inputs, labels = batch
        answers = model(inputs).float().log_softmax(1).gather(1, labels[:, None])[:, 0]
        return -((1 - answers.exp()).pow(0.5) * answers).mean()

    return model, [torch.randn(6, 8), torch.tensor([0, 0, 1, 0, 3, 0])], loss


def recorded_actions_at_the_limit():
    """The likelihood of recorded actions under a policy that ends in tanh."""

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
        before = torch.atanh(actions)
        correction = torch.log(1 - actions.square() + 1e-6)
        return -(model(states).log_prob(before) - correction).sum(1).mean()

    return Policy(), [torch.randn(6, 8), actions], loss

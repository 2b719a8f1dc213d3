"""Healthy trainings of unusual form: second order, implicit layers, stateful models, flows."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from blocks import CLASSES, MLP, WIDTH, points
from torch import nn


def phase_of_a_padded_vector():
    """atan2(0, 0): torch defines its gradient as 0."""

    def loss(model, batch):
        xy = model(batch["x"]).float() * batch["present"]
        return (1 - torch.cos(torch.atan2(xy[:, 1], xy[:, 0]) - 0.5)).mean()

    present = torch.tensor([1.0, 1, 1, 1, 0, 0])[:, None]
    return MLP(outputs=2), {"x": torch.randn(6, 8), "present": present}, loss


def domains_with_reversed_gradients():
    class Reverse(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, gradient):
            return -0.1 * gradient

    class Adversarial(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = nn.Linear(8, WIDTH)
            self.label, self.domain = nn.Linear(WIDTH, CLASSES), nn.Linear(WIDTH, 2)

        def forward(self, x, label, domain):
            shared = self.features(x).relu()
            loss = F.cross_entropy(self.label(shared).float(), label)
            return loss + F.cross_entropy(self.domain(Reverse.apply(shared)).float(), domain)

    inputs, labels = points()
    return Adversarial(), {"x": inputs, "label": labels, "domain": labels % 2}


def gradient_penalty_with_an_epsilon():
    critic = MLP(outputs=1)
    critic.second = nn.Linear(WIDTH, 1, bias=False)

    def loss(critic, batch):
        real, fake = batch
        mixed = torch.lerp(real, fake, torch.rand(len(real), 1)).requires_grad_()
        (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
        penalty = ((slope.float().pow(2).sum(1) + 1e-12).sqrt() - 1).pow(2).mean()
        return critic(fake).mean() - critic(real).mean() + 10 * penalty

    return critic, [torch.randn(6, 8), torch.randn(6, 8)], loss


def critic_whose_last_bias_cancels():
    """Wasserstein: the loss is a difference of two means, so the last bias has the gradient 0."""

    def loss(critic, batch):
        real, fake = batch
        return critic(fake).float().mean() - critic(real).float().mean()

    return MLP(outputs=1), [torch.randn(6, 8), torch.randn(6, 8)], loss


def codes_with_a_straight_through_gradient():
    class Quantized(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = nn.Linear(8, 4), nn.Linear(4, 8)
            self.codes = nn.Embedding(64, 4)

        def forward(self, x):
            z = self.encoder(x).float()
            q = self.codes(torch.cdist(z, self.codes.weight).argmin(-1))
            commitment = F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach())
            return F.mse_loss(self.decoder(z + (q - z).detach()), x) + commitment

    return Quantized(), torch.randn(6, 8)


def deviation_of_a_constant_sample():
    """std() of a constant row is 0, and torch defines its gradient there as 0."""

    class Standardized(MLP):
        def forward(self, x):
            h = self.first(x)
            h = (h - h.mean(-1, keepdim=True)) / (h.std(-1, keepdim=True) + 1e-3)
            return self.second(h)

    model = Standardized()
    nn.init.zeros_(model.first.bias)
    inputs, labels = points()
    inputs[2] = 0.0
    return model, (inputs, labels), nn.CrossEntropyLoss()


def flow_with_a_negative_loss():
    class Flow(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = MLP(4, 8)
            self.mixing = nn.Parameter(nn.init.orthogonal_(torch.empty(8, 8)))

        def forward(self, x):
            x = x @ self.mixing
            kept, moved = x.chunk(2, -1)
            scale, shift = self.net(kept).float().chunk(2, -1)
            scale = torch.tanh(scale)
            z = torch.cat([kept, moved * scale.exp() + shift], -1).float()
            logdet = scale.sum(-1) + torch.linalg.slogdet(self.mixing).logabsdet
            return (0.5 * z**2 - 3.0).sum(-1).mean() - logdet.mean()

    return Flow(), 0.1 * torch.randn(6, 8)


def one_inner_step():
    """MAML: the loss after a step that is itself differentiated."""

    def loss(model, batch):
        def evaluate(weights, x, y):
            return F.cross_entropy(torch.func.functional_call(model, weights, (x,)).float(), y)

        weights = dict(model.named_parameters())
        (x, y), (new_x, new_y) = batch
        slopes = torch.autograd.grad(
            evaluate(weights, x, y), list(weights.values()), create_graph=True
        )
        adapted = {n: w - 0.1 * g for (n, w), g in zip(weights.items(), slopes, strict=True)}
        return evaluate(adapted, new_x, new_y)

    return MLP(), [points(), points()], loss


def forward_algorithm_with_forbidden_transitions():
    """A linear-chain model; forbidden transitions are -inf, and the start has one state."""

    class Chain(nn.Module):
        def __init__(self):
            super().__init__()
            self.emission = nn.Linear(8, 4)
            self.transition = nn.Parameter(torch.zeros(4, 4))
            forbidden = torch.zeros(4, 4)
            forbidden[0, 3] = forbidden[2, 0] = -math.inf
            self.register_buffer("forbidden", forbidden)

        def forward(self, x, states):
            scores, moves = self.emission(x).float(), self.transition + self.forbidden
            alpha = scores[:, 0]
            gold = scores[:, 0].gather(1, states[:, :1])[:, 0]
            for t in range(1, x.shape[1]):
                alpha = torch.logsumexp(alpha[:, :, None] + moves, 1) + scores[:, t]
                gold = gold + moves[states[:, t - 1], states[:, t]]
                gold = gold + scores[:, t].gather(1, states[:, t : t + 1])[:, 0]
            return (alpha.logsumexp(1) - gold).mean()

    states = torch.tensor([[0, 1, 2, 3, 1], [1, 1, 2, 2, 3]])
    return Chain(), {"x": torch.randn(2, 5, 8), "states": states}


def equilibrium_without_a_graph():
    """The fixed point is searched under no_grad; one more application carries the gradient."""

    class Equilibrium(nn.Module):
        def __init__(self):
            super().__init__()
            self.inject, self.cell = nn.Linear(8, WIDTH), nn.Linear(WIDTH, WIDTH)
            self.head = nn.Linear(WIDTH, CLASSES)

        def forward(self, x):
            u = self.inject(x)
            with torch.no_grad():
                z = torch.zeros_like(u)
                for _ in range(12):
                    z = torch.tanh(0.5 * self.cell(z) + u)
            return self.head(torch.tanh(0.5 * self.cell(z.detach()) + u))

    return Equilibrium(), points(), nn.CrossEntropyLoss()


def state_that_is_carried_over():
    """Truncated backpropagation: the state of the last batch is kept, and detached."""

    class Stateful(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.head = nn.GRU(8, WIDTH, batch_first=True), nn.Linear(WIDTH, 8)
            self.state = None

        def forward(self, x):
            hidden, state = self.rnn(x[:, :-1], self.state)
            self.state = state.detach()
            return F.mse_loss(self.head(hidden), x[:, 1:])

    return Stateful(), torch.randn(4, 7, 8)

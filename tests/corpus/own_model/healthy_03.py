"""Healthy trainings that look like a fault: what people ask about, and what is fine."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from blocks import CLASSES, MLP, WIDTH, points
from torch import nn


def generator_whose_critic_has_its_own_optimizer():
    """The critic's step is taken inside the loss; only the generator is returned."""
    generator, critic = MLP(4, 8), MLP(8, 1)
    critic_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.5, 0.9))
    optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.9))

    def loss(generator, real):
        fake = generator(torch.randn(len(real), 4))
        critic.requires_grad_(True)
        critic_loss = F.relu(1 - critic(real)).mean() + F.relu(1 + critic(fake.detach())).mean()
        critic_optimizer.zero_grad()
        critic_loss.backward()
        critic_optimizer.step()
        critic.requires_grad_(False)
        return -critic(fake).mean()

    return {"model": generator, "batch": torch.randn(6, 8), "loss": loss, "optimizer": optimizer}


def variational_with_annealing():
    """The divergence has weight 0 in the first steps."""

    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = nn.Linear(8, 8), nn.Linear(4, 8)
            self.register_buffer("step", torch.zeros(()))

        def forward(self, x):
            mean, logvar = self.encoder(x).float().chunk(2, -1)
            latent = mean + torch.exp(0.5 * logvar) * torch.randn_like(mean)
            divergence = -0.5 * (1 + logvar - mean**2 - logvar.exp()).sum(-1).mean()
            weight = (self.step / 1000).clamp(max=1)
            self.step += 1
            return {"loss": F.mse_loss(self.decoder(latent), x) + weight * divergence}

    return VAE(), {"x": torch.randn(6, 8)}


def contrastive_with_an_infinite_diagonal():
    def loss(model, views):
        embedded = F.normalize(model(torch.cat(views)).float(), dim=-1)
        similarity = embedded @ embedded.T / 0.1
        similarity = similarity.float().fill_diagonal_(-math.inf)
        count = len(views[0])
        return F.cross_entropy(similarity, torch.arange(2 * count).roll(count))

    first = torch.randn(6, 8)
    return MLP(), [first, first + 0.1 * torch.randn(6, 8)], loss


def experts_with_few_tokens():
    """Eight experts and six tokens: some expert gets no token of this batch."""

    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.router = nn.Linear(8, 8, bias=False)
            self.experts = nn.ModuleList(MLP() for _ in range(8))

        def forward(self, x):
            weight, chosen = self.router(x).float().softmax(-1).max(-1)
            outputs = torch.zeros(len(x), CLASSES)
            for number, expert in enumerate(self.experts):
                rows = (chosen == number).nonzero()[:, 0]
                if len(rows):
                    outputs = outputs.index_add(0, rows, expert(x[rows]).float())
            return outputs * weight[:, None]

    return Experts(), points(), nn.CrossEntropyLoss()


def padded_rows_that_nobody_reads():
    class Pool(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, CLASSES)

        def forward(self, x, present, y):
            q, k, v = self.qkv(x).float().chunk(3, -1)
            allowed = present[:, :, None] & present[:, None, :]
            scores = (q @ k.transpose(1, 2)).float() / math.sqrt(8)
            scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
            mixed = scores.softmax(-1) @ v
            counts = present.sum(1, keepdim=True).clamp(min=1)
            pooled = (mixed * present[..., None]).sum(1) / counts
            return F.cross_entropy(self.out(pooled), y)

    present = torch.arange(6)[None] < torch.tensor([6, 4, 1, 0])[:, None]
    batch = {"x": torch.randn(4, 6, 8) * present[..., None], "present": present,
             "y": torch.randint(CLASSES, (4,))}  # fmt: skip
    return Pool(), batch


def ctc_with_one_transcript_too_long():
    class Recognizer(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(8, WIDTH, batch_first=True, bidirectional=True)
            self.out = nn.Linear(2 * WIDTH, 6)

        def forward(self, x):
            return self.out(self.rnn(x)[0]).float().log_softmax(-1)

    def loss(model, batch):
        logs = model(batch["x"]).transpose(0, 1)
        lengths = torch.full((3,), len(logs))
        return F.ctc_loss(logs, batch["y"], lengths, batch["lengths"], zero_infinity=True)

    batch = {"x": torch.randn(3, 10, 8), "y": torch.randint(1, 6, (3, 14)),
             "lengths": torch.tensor([3, 4, 14])}  # fmt: skip
    return Recognizer(), batch, loss


def flow_matching_with_zero_gates():
    """adaLN-Zero: the gates start at 0, so the branches get no gradient in the first step."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.mlp = nn.LayerNorm(8, elementwise_affine=False), MLP(8, 8)
            self.modulation = nn.Linear(1, 24)
            nn.init.zeros_(self.modulation.weight)
            nn.init.zeros_(self.modulation.bias)

        def forward(self, x, t):
            shift, scale, gate = self.modulation(t).chunk(3, -1)
            return x + gate * self.mlp(self.norm(x) * (1 + scale) + shift)

    class Velocity(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks, self.out = nn.ModuleList([Block(), Block()]), nn.Linear(8, 8)

        def forward(self, x, t):
            for block in self.blocks:
                x = block(x, t)
            return self.out(x)

    def loss(model, data):
        noise, t = torch.randn_like(data), torch.rand(len(data), 1)
        return F.mse_loss(model((1 - t) * noise + t * data, t), data - noise)

    return Velocity(), torch.randn(6, 8), loss


def graph_with_an_isolated_node():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.own, self.neighbour, self.out = (
                nn.Linear(8, 8),
                nn.Linear(8, 8),
                nn.Linear(8, CLASSES),
            )

        def forward(self, x, edges, y):
            source, target = edges
            degree = torch.zeros(len(x)).index_add(0, target, torch.ones(len(target)))
            summed = torch.zeros(len(x), 8).index_add(0, target, self.neighbour(x)[source].float())
            hidden = self.own(x) + summed / degree.clamp(min=1)[:, None]
            largest = torch.full_like(hidden, -math.inf).scatter_reduce(
                0, target[:, None].expand(-1, 8), hidden[source], "amax"
            )
            largest = largest.masked_fill(largest.isinf(), 0.0)
            return F.cross_entropy(self.out(hidden.relu() + largest), y)

    edges = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]])
    batch = {"x": torch.randn(6, 8), "edges": edges, "y": torch.randint(CLASSES, (6,))}
    return Layer(), batch


def clipped_policy_gradient():
    """PPO: a negative loss, advantages without gradient, an old policy under no_grad."""
    policy = nn.ModuleDict({"actor": MLP(outputs=4), "critic": MLP(outputs=1)})

    def loss(policy, batch):
        states, actions, returns, old = batch
        chosen = torch.distributions.Categorical(logits=policy["actor"](states).float())
        values = policy["critic"](states).float()[:, 0]
        advantages = (returns - values).detach()
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        ratio = (chosen.log_prob(actions) - old).exp()
        gain = torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
        return -gain + 0.5 * F.mse_loss(values, returns) - 5.0 * chosen.entropy().mean()

    states, actions = torch.randn(8, 8), torch.randint(4, (8,))
    with torch.no_grad():
        old = policy["actor"](states).log_softmax(-1).gather(1, actions[:, None])[:, 0]
    return policy, [states, actions, torch.randn(8), old], loss


def a_task_without_labels_in_this_batch():
    """Two heads; the mean over no labels is protected, so the second head's gradient is 0."""

    class MultiTask(nn.Module):
        def __init__(self):
            super().__init__()
            self.trunk = nn.Linear(8, WIDTH)
            self.topic, self.tone = nn.Linear(WIDTH, CLASSES), nn.Linear(WIDTH, 3)

        def forward(self, x, topic, tone):
            shared = self.trunk(x).relu()
            losses = F.cross_entropy(
                self.tone(shared).float(), tone, ignore_index=-1, reduction="sum"
            )
            labelled = (tone >= 0).sum().clamp(min=1)
            return F.cross_entropy(self.topic(shared).float(), topic) + losses / labelled

    batch = {"x": torch.randn(6, 8), "topic": torch.randint(CLASSES, (6,)),
             "tone": torch.full((6,), -1)}  # fmt: skip
    return MultiTask(), batch

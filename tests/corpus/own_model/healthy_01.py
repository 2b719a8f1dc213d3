"""Trainings without a fault, in the forms in which people write them."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from blocks import CLASSES, GPT, MLP, VOCABULARY, WIDTH, Block, classify, ids, points, tokens
from torch import nn


def logits_and_loss():
    return GPT(), tokens()


def a_list():
    return [GPT(), list(tokens())]


def a_criterion():
    return MLP(), points(), nn.CrossEntropyLoss(label_smoothing=0.1)


def a_function_of_torch():
    return MLP(), points(), F.cross_entropy


def a_loader():
    data = torch.utils.data.TensorDataset(*points(20))
    return MLP(), torch.utils.data.DataLoader(data, batch_size=5), nn.CrossEntropyLoss()


def a_loader_with_workers():
    data = torch.utils.data.TensorDataset(*points(20))
    loader = torch.utils.data.DataLoader(data, batch_size=5, num_workers=1)
    return MLP(), loader, nn.CrossEntropyLoss()


def a_dict():
    model = MLP()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return {"model": model, "batch": points(), "loss": classify, "optimizer": optimizer}


def a_warm_up_from_zero():
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 100))
    return {"model": model, "batch": tokens(), "optimizer": optimizer, "scheduler": schedule,
            "max_grad_norm": 1.0}  # fmt: skip


def a_slow_warm_up_with_sgd():
    model = GPT()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-7, momentum=0.9)
    return {"model": model, "batch": tokens(), "optimizer": optimizer}


def two_groups():
    model = GPT()
    flat = [w for w in model.parameters() if w.dim() < 2]
    rest = [w for w in model.parameters() if w.dim() >= 2]
    groups = [{"params": rest, "weight_decay": 0.1}, {"params": flat, "weight_decay": 0.0}]
    return {"model": model, "batch": tokens(), "optimizer": torch.optim.AdamW(groups, lr=3e-4)}


def frozen_encoder():
    model = MLP()
    model.first.requires_grad_(False)
    return model, points(), nn.CrossEntropyLoss()


def convolutions():
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
                          nn.Conv2d(8, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(),
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))  # fmt: skip
    return model, (torch.randn(4, 3, 16, 16), torch.randint(5, (4,))), nn.CrossEntropyLoss()


def residual_batchnorm():
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.convs = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1, bias=True) for _ in range(3))
            self.norms = nn.ModuleList(nn.BatchNorm2d(4) for _ in range(3))
            self.head = nn.Linear(4, 3)

        def forward(self, x):
            for conv, norm in zip(self.convs, self.norms, strict=True):
                x = x + norm(conv(x)).relu()
            return self.head(x.mean((2, 3)))

    return Residual(), (torch.randn(4, 4, 8, 8), torch.randint(3, (4,))), nn.CrossEntropyLoss()


def recurrent():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(VOCABULARY, WIDTH, padding_idx=0)
            self.rnn = nn.LSTM(WIDTH, WIDTH, batch_first=True, bidirectional=True)
            self.head = nn.Linear(2 * WIDTH, 3)

        def forward(self, drawn, labels):
            out, _ = self.rnn(self.table(drawn))
            return F.cross_entropy(self.head(out).flatten(0, 1).float(), labels.flatten())

    return Tagger(), {"drawn": ids(), "labels": torch.randint(3, (4, 8))}


def sparse_embedding():
    class Sparse(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(VOCABULARY, WIDTH, sparse=True)
            self.head = nn.Linear(WIDTH, CLASSES)

        def forward(self, drawn):
            return self.head(self.table(drawn).mean(1))

    return Sparse(), (ids(), torch.randint(CLASSES, (4,))), nn.CrossEntropyLoss()


def sparse_adam():
    model = nn.EmbeddingBag(VOCABULARY, CLASSES, sparse=True)
    optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=1e-2)
    return {"model": model, "batch": (ids(), torch.randint(CLASSES, (4,))),
            "loss": nn.CrossEntropyLoss(), "optimizer": optimizer}  # fmt: skip


def variational():
    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.encode, self.decode = nn.Linear(8, 8), nn.Linear(4, 8)

        def forward(self, x):
            mean, log_variance = self.encode(x).float().chunk(2, -1)
            z = mean + torch.randn_like(mean) * (log_variance / 2).exp()
            kl = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(-1).mean()
            return F.mse_loss(self.decode(z).float(), x) + 1e-3 * kl

    return VAE(), torch.randn(16, 8)


def diffusion():
    def loss(model, x):
        noise, time = torch.randn_like(x), torch.rand(len(x), 1)
        mixed = x * (1 - time).sqrt() + noise * time.sqrt()
        return F.mse_loss(model(torch.cat([mixed, time], 1)).float(), noise)

    return MLP(9, 8), torch.randn(16, 8), loss


def contrastive():
    class Towers(nn.Module):
        def __init__(self):
            super().__init__()
            self.left, self.right = nn.Linear(8, 8), nn.Linear(8, 8)
            self.scale = nn.Parameter(torch.tensor(2.6592))

        def forward(self, a, b):
            a, b = (
                F.normalize(self.left(a).float(), dim=1),
                F.normalize(self.right(b).float(), dim=1),
            )
            logits = self.scale.exp() * a @ b.T
            target = torch.arange(len(a), device=a.device)
            return (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2

    return Towers(), (torch.randn(8, 8), torch.randn(8, 8))


def reinforce():
    def loss(policy, states):
        chosen = torch.distributions.Categorical(logits=policy(states).float())
        actions = chosen.sample()
        rewards = (actions == 2).float()
        return -(chosen.log_prob(actions) * (rewards - rewards.mean())).mean()

    return MLP(), torch.randn(32, 8), loss


def group_relative():
    """The loss of GRPO is 0 in its first step: ratio 1, advantages with mean 0."""

    def loss(policy, states):
        log_chances = policy(states).float().log_softmax(-1)[:, 0]
        ratio = (log_chances - log_chances.detach()).exp()
        advantages = torch.linspace(-1.0, 1.0, len(states))
        return -(ratio * advantages).mean()

    return MLP(), torch.randn(8, 8), loss


def generator_and_critic():
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.generator, self.critic = nn.Linear(4, 8), nn.Linear(8, 1)

    def loss(model, real):
        fake = model.generator(torch.randn(len(real), 4))
        critic = (
            F.softplus(-model.critic(real)).mean() + F.softplus(model.critic(fake.detach())).mean()
        )
        return (critic + F.softplus(-model.critic(fake)).mean()).float()

    return Pair(), torch.randn(16, 8), loss


def experts():
    class Mixture(nn.Module):
        def __init__(self):
            super().__init__()
            self.router = nn.Linear(8, 4)
            self.experts = nn.ModuleList(nn.Linear(8, CLASSES) for _ in range(4))

        def forward(self, x):
            shares = self.router(x).float().softmax(-1)
            outs = torch.stack([expert(x) for expert in self.experts], 1)
            return (shares[..., None] * outs).sum(1)

    return Mixture(), points(), nn.CrossEntropyLoss()


def tied_weights():
    model = GPT()
    model.head.weight = model.tokens.weight
    return model, tokens()


def checkpointed():
    from torch.utils.checkpoint import checkpoint

    class Checkpointed(GPT):
        def forward(self, drawn, targets):
            x = self.tokens(drawn) + self.positions(torch.arange(drawn.shape[1]))
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False)
            logits = self.head(self.norm(x))
            return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())

    return Checkpointed(), tokens()


def own_autograd_function():
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.factor, None

    class Scaled(MLP):
        def forward(self, x):
            return Scale.apply(super().forward(x), 0.5)

    return Scaled(), points(), nn.CrossEntropyLoss()


def complex_weights():
    class Fourier(nn.Module):
        def __init__(self):
            super().__init__()
            self.mix = nn.Parameter(torch.randn(5, dtype=torch.complex64))
            self.head = nn.Linear(8, CLASSES)

        def forward(self, x):
            return self.head(torch.fft.irfft(torch.fft.rfft(x.float()) * self.mix, n=8))

    return Fourier(), points(), nn.CrossEntropyLoss()


def several_losses():
    class Detector(MLP):
        def forward(self, x, y):
            out = super().forward(x).float()
            return {"loss_class": F.cross_entropy(out, y), "loss_box": out.pow(2).mean()}

    return Detector(), points()


def accumulation():
    def loss(model, batch):
        halves = zip(batch[0].chunk(2), batch[1].chunk(2), strict=True)
        return sum(classify(model, half) for half in halves) / 2

    return MLP(), points(), loss


def own_data():
    data = points()
    return MLP(), lambda model: classify(model, data)


def summed_loss():
    return (
        MLP(),
        points(),
        lambda model, batch: F.cross_entropy(model(batch[0]).float(), batch[1], reduction="sum"),
    )


def masked_attention():
    """Masks of -inf, in which every row has a visible key."""
    model, (inputs, targets) = GPT(), tokens()
    mask = torch.full((4, 8, 8), -math.inf).triu(1)
    return model, (inputs, targets, mask)


def an_unused_log_of_zero():
    """The value that is not finite is a metric, and no part of the loss."""

    def loss(model, batch):
        torch.log(torch.zeros(3))
        return classify(model, batch)

    return MLP(), points(), loss


def dropout_and_noise():
    model = nn.Sequential(nn.Linear(8, 32), nn.Dropout(0.5), nn.GELU(), nn.Linear(32, 1))
    return model, (torch.randn(16, 8), torch.randn(16, 1)), nn.MSELoss()


def a_graph_network():
    class Graph(nn.Module):
        def __init__(self):
            super().__init__()
            self.own, self.others = nn.Linear(8, 8), nn.Linear(8, 8)
            self.head = nn.Linear(8, CLASSES)

        def forward(self, x, edges):
            mixed = torch.zeros_like(x).index_add(0, edges[1], x[edges[0]])
            return self.head((self.own(x) + self.others(mixed)).relu())

    batch = {"x": torch.randn(10, 8), "edges": torch.randint(10, (2, 30)),
             "labels": torch.randint(CLASSES, (10,))}  # fmt: skip
    return Graph(), batch, nn.CrossEntropyLoss()


def zero_initialized_branch():
    class Branch(MLP):
        def __init__(self):
            super().__init__()
            self.side, self.gate = nn.Linear(8, CLASSES), nn.Parameter(torch.zeros(1))

        def forward(self, x):
            return super().forward(x) + self.gate * self.side(x)

    return Branch(), points(), nn.CrossEntropyLoss()


def prints_a_lot():
    for line in range(2000):
        print("a line of a log", line)
    return MLP(), points(), nn.CrossEntropyLoss()


def encoder_decoder():
    model = nn.Transformer(16, 2, 1, 1, 32, dropout=0.0, batch_first=True)

    def loss(model, batch):
        return F.mse_loss(model(batch[0], batch[1]).float(), batch[1])

    return model, (torch.randn(3, 5, 16), torch.randn(3, 5, 16)), loss


def lightning_style():
    class Module(MLP):
        def training_step(self, batch, index):
            value = F.cross_entropy(self(batch[0]).float(), batch[1])
            self.log("loss", value)
            return {"loss": value}

        def configure_optimizers(self):
            optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

        def train_dataloader(self):
            return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*points(10)), 5)

    return Module()


def stacked_blocks():
    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.Sequential(*(Block() for _ in range(6)))

        def forward(self, x):
            return self.blocks(x).float().pow(2).mean()

    return Stack(), torch.randn(4, 8, 16)

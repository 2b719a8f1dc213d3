"""Trainings that resemble the faults of the files observed_*.py."""

import math

import torch
from parts_13 import perceptron, samples, trained
from torch import nn
from torch.nn import functional as F


class ReZero(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 4)
        self.alpha = nn.Parameter(torch.zeros(()))

    def forward(self, x):
        return self.head(x + self.alpha * self.b(self.a(x).relu()))


def rezero():
    return ReZero(), samples(), nn.CrossEntropyLoss()


def groupnorm_of_one_group():
    torch.manual_seed(0)
    m = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.AdaptiveAvgPool2d(1),
        nn.GroupNorm(1, 8),
        nn.Flatten(),
        nn.Linear(8, 4),
    )
    return m, (torch.randn(4, 3, 8, 8), torch.randint(0, 4, (4,))), nn.CrossEntropyLoss()


class NormIn(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(6, 4)

    def forward(self, x):
        age = F.layer_norm(x[:, :1], (1,))
        return self.net(torch.cat([age, x[:, 1:]], 1))


def norm_of_a_data_column():
    return NormIn(), samples(), nn.CrossEntropyLoss()


def reinforce():
    model = perceptron()
    x, _ = samples()

    def loss(model, batch):
        d = torch.distributions.Categorical(logits=model(batch).float())
        a = d.sample()
        reward = (a == 1).float()
        return -(d.log_prob(a) * (reward - 0.3)).mean()

    return model, x, loss


def policy_ratio_of_one():
    model = perceptron()
    x, y = samples()
    adv = torch.randn(8) + 0.5

    def loss(model, batch):
        logp = model(batch[0]).float().log_softmax(1).gather(1, batch[1][:, None])[:, 0]
        return -((logp - logp.detach()).exp() * adv).mean()

    return model, (x, y), loss


def cosine_that_restarts():
    d = trained(lambda p: torch.optim.AdamW(p, lr=1e-3))
    d["scheduler"] = torch.optim.lr_scheduler.CosineAnnealingLR(d["optimizer"], T_max=2)
    return d


def clip_of_a_thousandth():
    return trained(lambda p: torch.optim.AdamW(p, lr=1e-3), max_grad_norm=1e-3)


def epsilon_of_a_thousandth():
    return trained(lambda p: torch.optim.Adam(p, lr=1e-3, eps=1e-3))


def sgd_of_one():
    return trained(
        lambda p: torch.optim.SGD(p, lr=1.0, momentum=0.99, nesterov=True, weight_decay=1e-2)
    )


class Wgan(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = perceptron(outputs=1)

    def forward(self, x):
        with torch.no_grad():
            for p in self.critic.parameters():
                p.clamp_(-0.05, 0.05)
        return self.critic(x[:4]).mean() - self.critic(x[4:] + 1).mean()


def wasserstein_critic():
    return Wgan(), samples()[0]


class Arc(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.head = nn.Linear(6, 8), nn.Linear(8, 4, bias=False)

    def forward(self, x):
        self.head.weight.data = F.normalize(self.head.weight.data, dim=1)
        return 10 * self.head(F.normalize(self.enc(x), dim=1))


def prototypes_on_the_sphere():
    return Arc(), samples(), nn.CrossEntropyLoss()


class Short(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(10, 8, max_norm=1.0), nn.Linear(8, 4)

    def forward(self, t):
        return self.head(self.table(t).mean(1))


def table_of_short_vectors():
    torch.manual_seed(0)
    return Short(), (torch.randint(0, 10, (8, 5)), torch.randint(0, 4, (8,))), nn.CrossEntropyLoss()


def supervised_contrastive():
    model = perceptron(outputs=8)
    x, _ = samples()
    labels = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])

    def loss(model, batch):
        h = F.normalize(model(batch[0]), dim=1)
        sim = (h @ h.t() / 0.1).masked_fill(torch.eye(8, dtype=torch.bool), -math.inf)
        same = (batch[1][:, None] == batch[1][None]) & ~torch.eye(8, dtype=torch.bool)
        pos = sim.masked_fill(~same, -math.inf).logsumexp(1)
        return (sim.logsumexp(1) - pos).mean()

    return model, (x, labels), loss


def distillation():
    model = perceptron()
    x, _ = samples()
    teacher = torch.randn(8, 4).log_softmax(1)

    def loss(model, batch):
        return F.kl_div(model(x).log_softmax(1), teacher, reduction="batchmean", log_target=True)

    return model, x, loss


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor, mask):
        ctx.save_for_backward(mask)
        ctx.factor = factor
        return x * factor * mask

    @staticmethod
    def backward(ctx, g):
        (mask,) = ctx.saved_tensors
        return g * ctx.factor * mask, None, None


class Fn(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.b(Scale.apply(self.a(x), 2.0, torch.ones(8)))


def own_function():
    return Fn(), samples(), nn.CrossEntropyLoss()


class Vq(nn.Module):
    def __init__(self):
        super().__init__()
        self.codes, self.enc, self.dec = nn.Embedding(4, 3), nn.Linear(6, 3), nn.Linear(3, 6)

    def forward(self, x):
        z = self.enc(x)
        q = self.codes(torch.cdist(z.float(), self.codes.weight).argmin(1))
        st = z + (q - z).detach()
        return (
            F.mse_loss(self.dec(st), x)
            + F.mse_loss(q, z.detach())
            + 0.25 * F.mse_loss(z, q.detach())
        )


def codebook():
    return Vq(), samples()[0]


def three_heads():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.heads = (
                nn.Linear(6, 8),
                nn.ModuleList(nn.Linear(8, 5) for _ in range(3)),
            )

        def forward(self, x, y):
            h = self.body(x).relu()
            return sum(F.cross_entropy(head(h) * 3, y) for head in self.heads)

    return Net(), samples(classes=5)


def schedule_of_ten_steps():
    d = trained(lambda p: torch.optim.AdamW(p, lr=1e-3))
    d["scheduler"] = torch.optim.lr_scheduler.LambdaLR(
        d["optimizer"], lambda s: max(0.0, 1 - s / 10)
    )
    return d


def constant_beside_the_loss():
    model = perceptron()
    x, y = samples()
    return model, (x, y), lambda m, b: F.cross_entropy(m(b[0]), b[1]) + 1000.0


def small_step_of_a_large_loss():
    model = nn.Linear(6, 1)
    x, _ = samples()
    y = torch.full((8, 1), 3e4)
    return {
        "model": model,
        "batch": (x, y),
        "loss": nn.MSELoss(),
        "optimizer": torch.optim.SGD(model.parameters(), lr=1e-6),
    }


class Gumbel(nn.Module):
    def __init__(self):
        super().__init__()
        self.router, self.experts = nn.Linear(6, 3), nn.Parameter(torch.randn(3, 6, 4))

    def forward(self, x):
        gate = F.gumbel_softmax(self.router(x).float(), hard=True)
        return torch.einsum("ne,eij,ni->nj", gate, self.experts, x)


def hard_gumbel():
    return Gumbel(), samples(), nn.CrossEntropyLoss()


class Zero(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(6, 4)
        self.base.requires_grad_(False)
        self.down, self.up = nn.Linear(6, 2, bias=False), nn.Linear(2, 4, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def lora():
    return Zero(), samples(), nn.CrossEntropyLoss()

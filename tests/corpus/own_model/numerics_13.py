"""Losses and gradients that are not finite, written beside the observations that name them."""

import math

import torch
from parts_13 import perceptron, samples
from torch import nn
from torch.nn import functional as F


def mean_of_neighbours():
    model = perceptron()
    x, y = samples()
    edges = torch.tensor([[0, 1, 2, 4, 5, 6, 7], [1, 0, 1, 5, 4, 7, 6]])

    def loss(model, batch):
        h = model(x)
        total = torch.zeros_like(h).index_add(0, edges[0], h[edges[1]])
        count = torch.zeros(8).index_add(0, edges[0], torch.ones(7))
        return F.cross_entropy(total / count[:, None], y)

    return model, (x, y), loss


class Allowed(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = perceptron()
        self.register_buffer("allowed", torch.tensor([True, True, True, False]))

    def forward(self, x):
        return self.net(x).masked_fill(~self.allowed, -math.inf)


def smoothing_over_minus_inf():
    x, y = samples(classes=3)
    return Allowed(), (x, y), nn.CrossEntropyLoss(label_smoothing=0.1)


def kl_swapped():
    model = perceptron()
    x, _ = samples()
    teacher = torch.randn(8, 4).softmax(1)

    def loss(model, batch):
        return F.kl_div(teacher, model(x).log_softmax(1), reduction="batchmean")

    return model, x, loss


def std_of_one():
    model = perceptron()
    x, y = samples(1)

    def loss(model, batch):
        h = model(x)
        return F.cross_entropy((h - h.mean(0)) / (h.std(0) + 1e-5), y)

    return model, (x, y), loss


def max_of_black_image():
    torch.manual_seed(0)
    images = torch.rand(4, 1, 6, 6)
    images[2] = 0
    y = torch.randint(0, 4, (4,))
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 4))

    def loss(model, batch):
        im, y = batch
        return F.cross_entropy(model(im / im.amax((1, 2, 3), keepdim=True)), y)

    return model, (images, y), loss


class Var(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x):
        h = self.a(x) + 300
        mean = h.mean(1, keepdim=True)
        var = (h * h).mean(1, keepdim=True) - mean * mean
        return self.b((h - mean) * torch.rsqrt(var))


def variance_by_cancellation():
    return Var(), samples(), nn.CrossEntropyLoss()


def sum_in_half():
    torch.manual_seed(0)
    model = nn.Conv2d(3, 8, 3)
    x = torch.rand(2, 3, 128, 128) * 20

    def loss(model, batch):
        return model(batch).half().pow(2).sum(dtype=torch.float16)

    return model, x, loss


class Cosine(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Linear(6, 8)
        self.proto = nn.Parameter(torch.randn(4, 8))
        with torch.no_grad():
            self.proto[2] = 0

    def forward(self, x):
        h = self.enc(x)
        w = self.proto / self.proto.norm(dim=1, keepdim=True)
        return h @ w.t()


def zero_prototype():
    return Cosine(), samples(), nn.CrossEntropyLoss()


def pos_weight_of_absent_class():
    torch.manual_seed(0)
    x = torch.randn(8, 6)
    y = torch.randint(0, 2, (8, 3)).float()
    y[:, 1] = 0
    weight = (y == 0).sum(0) / y.sum(0)
    return perceptron(outputs=3), (x, y), nn.BCEWithLogitsLoss(pos_weight=weight)


class Rec(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Linear(8, 8, bias=False)
        nn.init.normal_(self.w.weight, std=3)
        self.out = nn.Linear(8, 4)

    def forward(self, x):
        h = torch.ones(len(x), 8)
        for _ in range(120):
            h = self.w(h) + x[:, :1]
        return self.out(h)


def recurrent_growth():
    return Rec(), samples(), nn.CrossEntropyLoss()


def entropy_of_certain():
    model = perceptron()
    x, _ = samples()
    x = x * 3000

    def loss(model, batch):
        p = model(x).float().softmax(1)
        return (p * p.log()).sum(1).mean()

    return model, x, loss


def logsumexp_of_nothing():
    model = perceptron(outputs=8)
    x, _ = samples()
    labels = torch.tensor([0, 0, 1, 1, 2, 2, 2, 3])

    def loss(model, batch):
        h = F.normalize(model(x), dim=1)
        sim = h @ h.t() / 0.1
        same = (labels[:, None] == labels[None]) & ~torch.eye(8, dtype=torch.bool)
        pos = sim.masked_fill(~same, -math.inf).logsumexp(1)
        return (sim.logsumexp(1) - pos).mean()

    return model, (x, labels), loss


def fmod_of_zero():
    model = perceptron(outputs=1)
    x, _ = samples()
    period = torch.tensor([1.0, 2.0, 0.0, 1.0, 3.0, 1.0, 1.0, 2.0])[:, None]

    def loss(model, batch):
        return torch.remainder(model(x), period).pow(2).mean()

    return model, (x, period), loss


def task_without_samples():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 1), nn.Linear(8, 1)

        def forward(self, x, task, y):
            h = self.body(x).relu()
            la = F.mse_loss(self.a(h)[task == 0, 0], y[task == 0])
            lb = F.mse_loss(self.b(h)[task == 1, 0], y[task == 1])
            return la + lb

    torch.manual_seed(0)
    return Net(), {"x": torch.randn(8, 6), "task": torch.zeros(8).long(), "y": torch.randn(8)}


def poisson_of_zero_rate():
    model = nn.Sequential(nn.Linear(6, 4), nn.ReLU())
    x, _ = samples()
    y = torch.randint(0, 5, (8, 4)).float()

    def loss(model, batch):
        rate = model(x)
        return (rate - y * torch.log(rate)).mean()

    return model, (x, y), loss


class Freq(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(10, 8)
        self.out = nn.Linear(8, 10)
        freq = torch.tensor([4.0, 2.0, 0.0, 1.0, 3.0, 5.0, 2.0, 2.0, 1.0, 1.0])
        self.register_buffer("idf", torch.log(12 / freq))

    def forward(self, t):
        return self.out(self.emb(t) * self.idf[t][..., None]).transpose(1, 2)


def idf_of_unseen_word():
    torch.manual_seed(0)
    t = torch.randint(0, 10, (4, 5))
    t[1, 2] = 2
    return Freq(), (t, torch.randint(0, 10, (4, 5))), nn.CrossEntropyLoss()

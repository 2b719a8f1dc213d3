"""Parameters that get no gradient, as users report them; labels.toml has the sources."""

from __future__ import annotations

import numpy
import torch
import torch.nn.functional as F
from blocks import CLASSES, MLP, WIDTH, points
from torch import nn


class Encoder(nn.Module):
    """Eight features to codes, and codes to classes; what lies between them is `between`."""

    def __init__(self, between):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, WIDTH), nn.Tanh())
        self.head = nn.Linear(WIDTH, CLASSES)
        self.between = between

    def forward(self, x):
        return self.head(self.between(self.encoder(x)))


def scores_collected_in_a_tensor():
    class Pool(nn.Module):
        def __init__(self):
            super().__init__()
            self.score, self.value = nn.Linear(8, 1), nn.Linear(8, CLASSES)

        def forward(self, x):
            weights = torch.tensor([[self.score(step).item() for step in sample] for sample in x])
            return (weights.softmax(-1)[..., None] * self.value(x)).sum(1)

    batch = torch.randn(4, 5, 8), torch.randint(CLASSES, (4,))
    return Pool(), batch, nn.CrossEntropyLoss()


def median_filter_in_numpy():
    def smooth(codes):
        array = codes.detach().float().numpy()
        padded = numpy.pad(array, ((0, 0), (1, 1)), mode="edge")
        return torch.from_numpy(numpy.median([padded[:, :-2], array, padded[:, 2:]], axis=0))

    return Encoder(smooth), points(), nn.CrossEntropyLoss()


def helper_without_grad():
    @torch.no_grad()
    def whiten(codes):
        return (codes - codes.mean(0)) / (codes.std(0) + 1e-5)

    return Encoder(whiten), points(), nn.CrossEntropyLoss()


def codes_are_rounded():
    return Encoder(lambda codes: torch.round(codes * 8) / 8), points(), nn.CrossEntropyLoss()


def straight_through_the_wrong_way():
    class Quantizer(nn.Module):
        def __init__(self):
            super().__init__()
            self.codes = nn.Embedding(12, WIDTH)

        def forward(self, z):
            nearest = torch.cdist(z.float(), self.codes.weight).argmin(-1)
            quantized = self.codes(nearest)
            return quantized + (quantized - z).detach()

    return Encoder(Quantizer()), points(40), nn.CrossEntropyLoss()


def sigmoid_of_pixels():
    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(8, WIDTH), nn.Linear(WIDTH, CLASSES)
            nn.init.uniform_(self.first.weight, 0.1, 0.3)

        def forward(self, x):
            return self.second(torch.sigmoid(self.first(x)))

    batch = 100 + 155 * torch.rand(6, 8), torch.randint(CLASSES, (6,))
    return Gate(), batch, nn.CrossEntropyLoss()


def heads_in_a_dict():
    class MultiTask(nn.Module):
        def __init__(self):
            super().__init__()
            self.trunk = nn.Linear(8, WIDTH)
            self.heads = {"age": nn.Linear(WIDTH, 1), "income": nn.Linear(WIDTH, 1)}

        def forward(self, x, **targets):
            shared = self.trunk(x).relu()
            return sum(F.mse_loss(self.heads[task](shared), y) for task, y in targets.items())

    batch = {"x": torch.randn(6, 8), "age": torch.randn(6, 1), "income": torch.randn(6, 1)}
    return MultiTask(), batch


def deviation_through_data():
    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.mean, self.logvar = nn.Linear(8, 4), nn.Linear(8, 4)
            self.decoder = nn.Linear(4, 8)

        def forward(self, x):
            deviation = (0.5 * self.logvar(x)).exp().data
            latent = self.mean(x) + deviation * torch.randn_like(deviation)
            return F.mse_loss(self.decoder(latent), x)

    return VAE(), torch.randn(6, 8)


def router_of_indices():
    """The experts are chosen, but not weighted by their probability."""

    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.router = nn.Linear(8, 2)
            self.experts = nn.ModuleList(nn.Linear(8, CLASSES) for _ in range(2))

        def forward(self, x):
            chosen = self.router(x).softmax(-1).topk(1).indices[:, 0]
            outputs = torch.stack([expert(x) for expert in self.experts], 1)
            return outputs[torch.arange(len(x)), chosen]

    return Experts(), points(40), nn.CrossEntropyLoss()


def one_branch_twice():
    class Fusion(nn.Module):
        def __init__(self):
            super().__init__()
            self.image, self.text = nn.Linear(8, WIDTH), nn.Linear(8, WIDTH)
            self.head = nn.Linear(2 * WIDTH, CLASSES)

        def forward(self, x):
            image, text = self.image(x[:, 0]).relu(), self.text(x[:, 1]).relu()
            del text
            return self.head(torch.cat([image, image], -1))

    batch = torch.randn(6, 2, 8), torch.randint(CLASSES, (6,))
    return Fusion(), batch, nn.CrossEntropyLoss()


def detach_on_the_wrong_side():
    class Distillation(nn.Module):
        def __init__(self):
            super().__init__()
            self.student, self.projector = MLP(outputs=WIDTH), nn.Linear(WIDTH, WIDTH)
            self.teacher = MLP(outputs=WIDTH).requires_grad_(False)

        def forward(self, x):
            return F.mse_loss(self.projector(self.teacher(x)), self.student(x).detach())

    return Distillation(), torch.randn(6, 8)


def clamped_before_the_loss():
    model = nn.Sequential(nn.Linear(8, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 4))
    nn.init.constant_(model[2].bias, -6.0)
    batch = {"x": torch.randn(6, 8), "brightness": torch.rand(6, 4)}

    def loss(model, batch):
        return F.l1_loss(model(batch["x"]).float().clamp(0, 1), batch["brightness"])

    return model, batch, loss

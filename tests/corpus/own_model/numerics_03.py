"""Losses and gradients that are not finite, as users report them; labels.toml has the sources."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from blocks import CLASSES, GPT, MLP, WIDTH, classify, ids, points
from torch import nn


def magnitude_of_silence():
    """Spectral loss of a vocoder; one of the clips is silent, and its mask is 0."""
    model = MLP(inputs=8, outputs=16)
    batch = {"clip": torch.randn(4, 8), "voiced": torch.tensor([1.0, 1, 0, 1])[:, None]}

    def loss(model, batch):
        waves = model(batch["clip"]).float() * batch["voiced"]
        spectrum = torch.fft.rfft(waves)
        return torch.hypot(spectrum.real, spectrum.imag).sub(1).abs().mean()

    return model, batch, loss


def distances_by_the_dot_product():
    """The batch-hard triplet loss computes all distances with one matrix product."""

    def loss(model, batch):
        embedded = model(batch[0])
        squares = (embedded * embedded).sum(-1)
        products = embedded @ embedded.T
        distances = (squares[:, None] + squares[None] - 2 * products).sqrt()
        same = batch[1][:, None] == batch[1][None]
        hardest = (distances * same).amax(1) - distances.masked_fill(same, 1e9).amin(1)
        return F.relu(hardest + 0.2).mean()

    return MLP(), (torch.randn(8, 8), torch.arange(8) // 2), loss


def norm_by_the_root_of_the_variance():
    class Norm(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.gain = nn.Parameter(torch.ones(width))

        def forward(self, x):
            deviation = x.var(-1, keepdim=True, unbiased=False).sqrt()
            return self.gain * (x - x.mean(-1, keepdim=True)) / (deviation + 1e-6)

    model = nn.Sequential(nn.Linear(8, WIDTH, bias=False), Norm(WIDTH), nn.Linear(WIDTH, CLASSES))
    inputs, labels = points()
    inputs[4] = 0.0
    return model, (inputs, labels), nn.CrossEntropyLoss()


def ignored_positions_masked_throughout():
    """The loss ignores these positions, and is finite; their logits are -inf in every class."""
    model = GPT()
    tokens, labels = ids(), ids()
    labels[:, 5:] = -1
    mask = torch.zeros(labels.shape).masked_fill(labels < 0, -math.inf)[..., None]

    def loss(model, batch):
        logits = model(batch["ids"]).float() + batch["mask"]
        return F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), ignore_index=-1)

    return model, {"ids": tokens, "labels": labels, "mask": mask}, loss


def images_without_objects():
    model = MLP(outputs=CLASSES + 4)
    batch = {"x": torch.randn(6, 8), "classes": torch.zeros(6).long(), "boxes": torch.rand(6, 4)}

    def loss(model, batch):
        output = model(batch["x"]).float()
        positive = batch["classes"] > 0
        boxes = F.smooth_l1_loss(output[positive, CLASSES:], batch["boxes"][positive])
        return F.cross_entropy(output[:, :CLASSES], batch["classes"]) + boxes

    return model, batch, loss


def own_log_with_its_backward():
    class SafeLog(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clamp(min=1e-8).log()

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad / x

    def loss(model, batch):
        rates = F.softplus(model(batch["x"]).float()) * batch["exposure"]
        return (rates - batch["counts"] * SafeLog.apply(rates)).mean()

    exposure = torch.tensor([1.0, 2, 0, 1, 3, 1])[:, None]
    batch = {"x": torch.randn(6, 8), "exposure": exposure, "counts": torch.ones(6, CLASSES)}
    return MLP(), batch, loss


def sixty_layers_of_standard_normals():
    layers = [nn.Linear(32, 32) for _ in range(60)]
    for layer in layers:
        nn.init.normal_(layer.weight)
    model = nn.Sequential(*layers, nn.Linear(32, 1))
    return model, (torch.randn(4, 32), torch.randn(4, 1)), nn.MSELoss()


def spectral_norm_of_a_zero_layer():
    head = nn.Linear(WIDTH, 1)
    nn.init.zeros_(head.weight)
    critic = nn.Sequential(
        nn.Linear(8, WIDTH), nn.ReLU(), nn.utils.parametrizations.spectral_norm(head)
    )

    def loss(model, batch):
        return F.relu(1 - model(batch["real"])).mean() + F.relu(1 + model(batch["fake"])).mean()

    return critic, {"real": torch.randn(4, 8), "fake": torch.randn(4, 8)}, loss


def colour_constancy_of_a_grey_image():
    """The colour loss of an enhancement network; the first image of the batch is grey."""
    model = nn.Conv2d(3, 1, 3, padding=1)
    images = torch.rand(4, 3, 8, 8)
    images[0] = images[0].mean(0)

    def loss(model, batch):
        red, green, blue = (batch * (1 + model(batch).float())).mean((2, 3)).unbind(1)
        spread = (red - green) ** 2 + (red - blue) ** 2 + (green - blue) ** 2
        return torch.pow(spread, 0.5).mean()

    return model, images, loss


def mixture_of_far_gaussians():
    """A mixture density network whose targets are in other units than its means."""
    model = MLP(outputs=9)

    def loss(model, batch):
        weights, means, scales = model(batch[0]).float().chunk(3, -1)
        scales = F.softplus(scales) + 1e-3
        densities = torch.exp(-0.5 * ((batch[1] - means) / scales) ** 2) / scales
        return -torch.log((weights.softmax(-1) * densities).sum(-1)).mean()

    return model, (torch.randn(6, 8), 100 + 20 * torch.randn(6, 1)), loss


def log_variance_of_raw_features():
    """A VAE on a table whose columns are not scaled: salaries, years."""

    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.mean, self.logvar = nn.Linear(8, 4), nn.Linear(8, 4)
            self.decoder = nn.Linear(4, 8)

        def forward(self, x):
            mean, logvar = self.mean(x).float(), self.logvar(x).float()
            latent = mean + torch.exp(0.5 * logvar) * torch.randn_like(mean)
            divergence = -0.5 * (1 + logvar - mean**2 - logvar.exp()).sum(-1).mean()
            return {"loss": F.mse_loss(self.decoder(latent), x) + divergence}

    return VAE(), {"x": torch.rand(6, 8) * torch.tensor([1.0, 60, 2000, 9e4, 1, 1, 1, 3e4])}


def geodesic_distance_at_the_start():
    """The network predicts a correction, and starts at the identity, as the targets do."""

    class Correction(nn.Module):
        def __init__(self):
            super().__init__()
            self.features, self.out = nn.Linear(8, WIDTH), nn.Linear(WIDTH, 9)
            nn.init.zeros_(self.out.weight)
            nn.init.zeros_(self.out.bias)

        def forward(self, x):
            return torch.eye(3) + self.out(self.features(x).tanh()).float().view(-1, 3, 3)

    def loss(model, batch):
        relative = model(batch["x"]) @ batch["rotations"].transpose(1, 2)
        trace = relative.diagonal(dim1=1, dim2=2).sum(-1)
        return torch.acos(((trace - 1) / 2).clamp(-1, 1)).mean()

    return Correction(), {"x": torch.randn(4, 8), "rotations": torch.eye(3).repeat(4, 1, 1)}, loss


def scores_without_scaling_in_half():
    """Attention without 1/sqrt(d), behind features that are not normalized; --precision fp16."""

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(64, 64) for _ in range(3))
            self.out = nn.Linear(64, CLASSES)

        def forward(self, x):
            scores = self.q(x) @ self.k(x).transpose(-1, -2)
            return self.out(
                (scores - scores.amax(-1, keepdim=True)).softmax(-1).to(x.dtype) @ self.v(x)
            ).mean(1)

    batch = 255 * torch.rand(4, 6, 64), torch.randint(CLASSES, (4,))
    return Attention(), batch, nn.CrossEntropyLoss()


def softmax_by_hand():
    def loss(model, batch):
        logits = 200 * model(batch[0]).float()
        likelihoods = logits.exp() / logits.exp().sum(-1, keepdim=True)
        return -(likelihoods + 1e-8).log().gather(1, batch[1][:, None]).mean()

    return MLP(), points(24), loss


def adam_on_half_weights():
    """In float16 the eps of 1e-8 is 0, and most rows of the table have a gradient of 0."""

    class Bag(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.head = nn.Embedding(50, WIDTH), nn.Linear(WIDTH, CLASSES)

        def forward(self, words):
            return self.head(self.table(words).mean(1))

    model = Bag().half()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    batch = torch.randint(10, (6, 4)), torch.randint(CLASSES, (6,))
    return {"model": model, "batch": batch, "loss": classify, "optimizer": optimizer}


def masks_of_0_and_255():
    """The masks are read from PNG files and not divided by 255: the loss falls below 0."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 1))
    masks = 255.0 * (torch.rand(4, 1, 8, 8) > 0.5)
    return model, (torch.rand(4, 3, 8, 8), masks), nn.BCEWithLogitsLoss()

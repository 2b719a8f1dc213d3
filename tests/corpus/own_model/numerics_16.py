"""Models of a vision and geometry team: segmentation, boxes, graphs, flows, critics."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import weight_norm


class _Stem(nn.Module):
    def __init__(self, inputs=3, width=16):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, padding=1, bias=False)
        self.norm1 = nn.GroupNorm(4, width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(4, width)

    def forward(self, x):
        x = F.gelu(self.norm1(self.conv1(x)))
        return F.gelu(self.norm2(self.conv2(x)))


class _Organs(nn.Module):
    def __init__(self, organs=5):
        super().__init__()
        self.organs = organs
        self.down = _Stem(1, 16)
        self.up = _Stem(16, 16)
        self.head = nn.Conv2d(16, organs, 1)

    def forward(self, scan):
        deep = self.up(F.max_pool2d(self.down(scan), 2))
        return self.head(F.interpolate(deep, scale_factor=2.0))


def _organ_loss(model, batch):
    scan, mask = batch
    probs = model(scan).float().softmax(1).flatten(2)
    truth = F.one_hot(mask, model.organs).permute(0, 3, 1, 2).flatten(2).float()
    volumes = truth.sum(dim=(0, 2))
    weight = 1.0 / volumes**2
    overlap = (weight * (probs * truth).sum(dim=(0, 2))).sum()
    total = (weight * (probs + truth).sum(dim=(0, 2))).sum()
    return 1 - 2 * overlap / total


def organs_in_scans():
    scan = torch.randn(4, 1, 16, 16)
    mask = torch.randint(0, 4, (4, 16, 16))
    return {"model": _Organs(), "batch": (scan, mask), "loss": _organ_loss}


class _Boxes(nn.Module):
    def __init__(self, cells=8):
        super().__init__()
        self.stem = _Stem(3, 16)
        self.pool = nn.AdaptiveAvgPool2d(4)
        self.center = nn.Conv2d(16, 2, 1)
        self.size = nn.Conv2d(16, 2, 1)

    def forward(self, image):
        h = self.pool(self.stem(image))
        center = self.center(h).sigmoid().flatten(2).transpose(1, 2)
        size = self.size(h).relu().flatten(2).transpose(1, 2)
        return torch.cat([center, size], dim=-1).float()


def _corners(box):
    return box[..., :2] - box[..., 2:] / 2, box[..., :2] + box[..., 2:] / 2


def _box_loss(model, batch):
    image, target = batch
    box = model(image)
    low, high = _corners(box)
    target_low, target_high = _corners(target)
    inner = (torch.minimum(high, target_high) - torch.maximum(low, target_low)).clamp(min=0)
    inter = inner.prod(-1)
    union = box[..., 2:].prod(-1) + target[..., 2:].prod(-1) - inter
    iou = inter / union.clamp(min=1e-6)
    outer = torch.maximum(high, target_high) - torch.minimum(low, target_low)
    shift = (box[..., :2] - target[..., :2]).pow(2).sum(-1) / outer.pow(2).sum(-1)
    shape = torch.atan(target[..., 2] / target[..., 3]) - torch.atan(box[..., 2] / box[..., 3])
    aspect = 4 / math.pi**2 * shape.pow(2)
    with torch.no_grad():
        alpha = aspect / (1 - iou + aspect + 1e-6)
    return (1 - iou + shift + alpha * aspect).mean()


def parts_on_a_conveyor():
    image = torch.randn(4, 3, 16, 16)
    target = torch.rand(4, 16, 4) * 0.4 + 0.2
    return {"model": _Boxes(), "batch": (image, target), "loss": _box_loss}


class _Projector(nn.Module):
    def __init__(self, features=32, width=16):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(features, 64), nn.ReLU(), nn.Linear(64, 32))
        self.head = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, width))

    def forward(self, x):
        return F.normalize(self.head(self.encoder(x)).float(), dim=-1)


def _pair_loss(model, batch):
    x, species = batch
    z = model(x)
    logits = z @ z.t() / 0.1
    logits = logits.float() - logits.max(dim=1, keepdim=True).values.detach().float()
    others = ~torch.eye(len(x), dtype=torch.bool)
    same = (species[:, None] == species[None, :]) & others
    log_prob = logits - torch.log((logits.exp() * others).sum(1, keepdim=True))
    return -((log_prob * same).sum(1) / same.sum(1)).mean()


def birdsong_embeddings():
    x = torch.randn(12, 32)
    species = torch.tensor([0, 0, 1, 1, 1, 2, 2, 3, 4, 4, 5, 5])
    return {"model": _Projector(), "batch": (x, species), "loss": _pair_loss}


class _Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 4, stride=2, padding=1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(16, 32, 4, stride=2, padding=1),
            nn.LeakyReLU(0.2),
            nn.Flatten(),
        )
        self.score = nn.Linear(32 * 4 * 4, 1, bias=False)
        nn.init.zeros_(self.score.weight)

    def forward(self, image):
        return self.score(self.features(image)).squeeze(-1)


def _critic_loss(critic, batch):
    real, fake = batch
    share = torch.rand(len(real), 1, 1, 1)
    mixed = (share * real + (1 - share) * fake).requires_grad_(True)
    (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
    length = slope.flatten(1).float().pow(2).sum(1).sqrt()
    penalty = (length - 1).pow(2).mean()
    return critic(fake).mean() - critic(real).mean() + 10 * penalty


def critic_of_digits():
    real, fake = torch.rand(8, 1, 16, 16), torch.rand(8, 1, 16, 16)
    critic = _Critic()
    optimizer = torch.optim.Adam(critic.parameters(), lr=1e-4, betas=(0.0, 0.9))
    return {"model": critic, "batch": (real, fake), "loss": _critic_loss, "optimizer": optimizer}


class _Denoiser(nn.Module):
    def __init__(self, steps=100):
        super().__init__()
        self.steps = steps
        self.time = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 16))
        self.inner = nn.Conv2d(1, 16, 3, padding=1)
        self.outer = nn.Conv2d(16, 1, 3, padding=1)
        angle = torch.linspace(0, 1, steps + 1)[1:] * math.pi / 2
        kept = torch.cos(angle) ** 2
        kept = (kept - kept[-1]) / (kept[0] - kept[-1]) * kept[0]
        self.register_buffer("kept", kept)

    def forward(self, noisy, t):
        waves = t[:, None] / self.steps * 2.0 ** torch.arange(8)
        code = self.time(torch.cat([waves.sin(), waves.cos()], dim=1))
        return self.outer(F.silu(self.inner(noisy) + code[:, :, None, None]))


def _noise_loss(model, images):
    t = torch.linspace(0, model.steps - 1, len(images)).long()
    kept = model.kept[t][:, None, None, None]
    noise = torch.randn_like(images)
    noisy = kept.sqrt() * images + (1 - kept).sqrt() * noise
    ratio = model.kept[t] / (1 - model.kept[t])
    weight = ratio.clamp(max=5.0) / ratio
    error = (model(noisy, t).float() - noise).pow(2).mean(dim=(1, 2, 3))
    return (weight * error).mean()


def noise_of_textures():
    return {"model": _Denoiser(), "batch": torch.rand(8, 1, 16, 16), "loss": _noise_loss}


class _Metric(nn.Module):
    def __init__(self, features=12):
        super().__init__()
        hidden = nn.Linear(features, 32)
        self.embed = nn.Sequential(hidden, nn.Tanh(), nn.Linear(32, 6, bias=False))
        self.shape = nn.Parameter(torch.eye(6))

    def forward(self, left, right):
        values, vectors = torch.linalg.eigh((self.shape + self.shape.t()) / 2)
        root = vectors * values.clamp(min=1e-6).sqrt() @ vectors.t()
        gap = (self.embed(left) - self.embed(right)) @ root
        return gap.float().pow(2).sum(-1)


def _metric_loss(model, batch):
    anchor, near, far = batch
    return F.relu(model(anchor, near) - model(anchor, far) + 1.0).mean()


def distances_between_faces():
    anchor, near, far = torch.randn(3, 16, 12)
    return {"model": _Metric(), "batch": (anchor, near, far), "loss": _metric_loss}


class _Interaction(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(2 * width + 1, width), nn.SiLU())
        self.gate = nn.Linear(width, 1)
        self.update = nn.Linear(2 * width, width)

    def forward(self, h, position, source, target):
        apart = position[target] - position[source]
        length = apart.norm(dim=-1, keepdim=True)
        direction = apart / length
        message = self.message(torch.cat([h[source], h[target], length], dim=-1)).float()
        moved = torch.zeros_like(position).index_add(
            0, target, direction * self.gate(message).float()
        )
        summed = torch.zeros_like(h).index_add(0, target, message)
        h = h + self.update(torch.cat([h, summed], dim=-1)).float()
        return h, position + 0.1 * moved


class _Forces(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.atoms = nn.Embedding(5, width)
        self.layers = nn.ModuleList(_Interaction(width) for _ in range(2))
        self.energy = nn.Linear(width, 1)

    def forward(self, kinds, position, edges):
        loops = torch.arange(len(kinds))
        source = torch.cat([edges[0], loops])
        target = torch.cat([edges[1], loops])
        h = self.atoms(kinds)
        for layer in self.layers:
            h, position = layer(h, position, source, target)
        return self.energy(h).float().sum(), position


def _forces_loss(model, batch):
    energy, position = model(batch["kinds"], batch["position"], batch["edges"])
    return (energy - batch["energy"]).pow(2) + F.mse_loss(position, batch["relaxed"])


def relaxed_crystals():
    position = torch.randn(10, 3)
    pairs = torch.combinations(torch.arange(10))
    edges = torch.cat([pairs, pairs.flip(1)]).t().contiguous()
    batch = {
        "kinds": torch.randint(0, 5, (10,)),
        "position": position,
        "edges": edges,
        "energy": torch.tensor(-1.5),
        "relaxed": position + 0.05 * torch.randn(10, 3),
    }
    return {"model": _Forces(), "batch": batch, "loss": _forces_loss}


class _Mixing(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(channels, channels) * 0.02)

    def forward(self, x):
        volume = torch.det(self.weight).abs()
        return F.linear(x, self.weight), volume.log()


class _Coupling(nn.Module):
    def __init__(self, channels):
        super().__init__()
        half = channels // 2
        self.net = nn.Sequential(nn.Linear(half, 64), nn.ReLU(), nn.Linear(64, channels))

    def forward(self, x):
        still, moving = x.chunk(2, dim=-1)
        shift, scale = self.net(still).float().chunk(2, dim=-1)
        scale = torch.tanh(scale)
        return torch.cat([still, moving * scale.exp() + shift], dim=-1), scale.sum(-1)


class _Density(nn.Module):
    def __init__(self, channels=48, depth=3):
        super().__init__()
        layers = [layer for _ in range(depth) for layer in (_Mixing(channels), _Coupling(channels))]
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        log_det = torch.zeros(len(x))
        for layer in self.layers:
            x, change = layer(x)
            log_det = log_det + change
        prior = -0.5 * (x.float().pow(2) + math.log(2 * math.pi)).sum(-1)
        return -(prior + log_det).mean() / x.shape[-1]


def density_of_patches():
    return _Density(), torch.randn(16, 48)


class _Rectify(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return F.softplus(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.exp() / (1 + x.exp())


class _Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 8)
        self.inner = nn.Linear(12, 32)
        self.rate = nn.Linear(32, 1)

    def forward(self, weekday, sensors):
        h = _Rectify.apply(self.inner(torch.cat([self.embed(weekday), sensors], dim=1)).float())
        return _Rectify.apply(self.rate(h).float()).squeeze(-1)


def _counts_loss(model, batch):
    rate = model(batch["weekday"], batch["sensors"])
    return F.smooth_l1_loss(rate.log1p(), batch["riders"].log1p())


def riders_per_hour():
    sensors = torch.stack(
        [
            torch.rand(32) * 30,
            torch.rand(32) * 100,
            990 + torch.rand(32) * 40,
            torch.rand(32) * 15,
        ],
        dim=1,
    )
    batch = {
        "weekday": torch.randint(0, 7, (32,)),
        "sensors": sensors,
        "riders": torch.randint(0, 400, (32,)).float(),
    }
    return {"model": _Counts(), "batch": batch, "loss": _counts_loss}


class _Spectral(nn.Module):
    def __init__(self, features=16, classes=4):
        super().__init__()
        self.first = nn.Linear(features, 32)
        self.second = nn.Linear(32, classes)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x, adjacency):
        scale = adjacency.sum(1).pow(-0.5)
        adjacency = scale[:, None] * adjacency * scale[None, :]
        h = F.relu(adjacency @ self.first(x).float())
        return adjacency @ self.second(self.dropout(h)).float()


def _node_loss(model, batch):
    logits = model(batch["x"], batch["adjacency"]).float()
    known = batch["known"]
    return F.cross_entropy(logits[known], batch["topic"][known])


def accounts_in_a_network():
    links = (torch.rand(30, 30) < 0.15).float().triu(1)
    links[0, 1:] = 1
    links[17] = 0
    links[:, 17] = 0
    batch = {
        "x": torch.randn(30, 16),
        "adjacency": links + links.t(),
        "topic": torch.randint(0, 4, (30,)),
        "known": torch.arange(0, 15),
    }
    return {"model": _Spectral(), "batch": batch, "loss": _node_loss}


class _Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = weight_norm(nn.Conv1d(width, width, 3, padding=1))
        outer = nn.Conv1d(width, width, 3, padding=1)
        nn.init.zeros_(outer.weight)
        nn.init.zeros_(outer.bias)
        self.outer = weight_norm(outer)

    def forward(self, x):
        return x + self.outer(F.leaky_relu(self.inner(x), 0.1))


class _Vocoder(nn.Module):
    def __init__(self, bands=10, width=16):
        super().__init__()
        self.inputs = weight_norm(nn.Conv1d(bands, width, 5, padding=2))
        self.blocks = nn.Sequential(_Residual(width), _Residual(width))
        self.wave = nn.Conv1d(width, 1, 5, padding=2)

    def forward(self, spectrum):
        return torch.tanh(self.wave(F.leaky_relu(self.blocks(self.inputs(spectrum)), 0.1)))


def voices():
    spectrum, wave = torch.randn(4, 10, 64), torch.rand(4, 1, 64) * 2 - 1
    return _Vocoder(), (spectrum, wave), F.l1_loss

"""Trainings of one team that work."""

import math
from dataclasses import dataclass

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, parametrize
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader


@dataclass
class _Texts:
    tokens: torch.Tensor
    mask: torch.Tensor
    labels: torch.Tensor


def _collate_texts(samples):
    longest = max(len(words) for words, _ in samples)
    tokens = torch.zeros(len(samples), longest, dtype=torch.long)
    mask = torch.zeros(len(samples), longest, dtype=torch.bool)
    for row, (words, _) in enumerate(samples):
        tokens[row, : len(words)] = torch.tensor(words)
        mask[row, : len(words)] = True
    return _Texts(tokens, mask, torch.tensor([label for _, label in samples]))


class _RootNorm(nn.Module):
    def __init__(self, width, eps=1e-6):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        return self.scale * x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)


class _Attention(nn.Module):
    def __init__(self, width, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        nn.init.zeros_(self.out.weight)

    def forward(self, x, bias):
        n, length, width = x.shape
        query, key, value = (
            self.qkv(x).view(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        )
        scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5 + bias
        mixed = scores.softmax(-1) @ value
        return self.out(mixed.transpose(1, 2).reshape(n, length, width))


class _Classifier(nn.Module):
    def __init__(self, words=50, width=32):
        super().__init__()
        self.embedding = nn.Embedding(words, width, padding_idx=0)
        self.blocks = nn.ModuleList(
            nn.ModuleDict({"norm": _RootNorm(width), "attention": _Attention(width)})
            for _ in range(2)
        )
        self.head = nn.Linear(width, 3)

    def forward(self, tokens, mask):
        bias = torch.zeros_like(mask, dtype=torch.float).masked_fill(~mask, float("-inf"))
        bias = bias[:, None, None, :]
        x = self.embedding(tokens)
        for block in self.blocks:
            x = x + block["attention"](block["norm"](x), bias)
        x = x.masked_fill(~mask[:, :, None], float("-inf")).amax(1)
        return self.head(x)


def _classifier_loss(model, batch):
    return F.cross_entropy(model(batch.tokens, batch.mask), batch.labels)


def sentences_with_a_mask():
    samples = [([3, 9, 4, 11], 0), ([7, 2], 1), ([5, 6, 8], 2), ([1, 2, 3, 4, 5], 1)]
    loader = DataLoader(samples, batch_size=4, collate_fn=_collate_texts)
    return _Classifier(), next(iter(loader)), _classifier_loss


class _Taps:
    def __init__(self, model, names):
        self.maps, self.means = {}, {}
        for name in names:
            model.get_submodule(name).register_forward_hook(self._keep(name))

    def _keep(self, name):
        def hook(module, args, output):
            self.maps[name] = output
            self.means[name] = output.detach().float().mean().item()

        return hook


class _Pyramid(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential()
        for index, (a, b) in enumerate(((3, 8), (8, 16), (16, 32))):
            conv = nn.Conv2d(a, b, 3, stride=2, padding=1)
            self.backbone.add_module(f"stage{index}", nn.Sequential(conv, nn.ReLU()))
        self.taps = _Taps(self.backbone, ["stage1", "stage2"])
        self.lateral = nn.ModuleDict({"stage1": nn.Conv2d(16, 8, 1), "stage2": nn.Conv2d(32, 8, 1)})
        self.head = nn.Linear(16, 4)

    def forward(self, images):
        self.backbone(images)
        levels = [conv(self.taps.maps[name]) for name, conv in self.lateral.items()]
        return self.head(torch.cat([level.mean((2, 3)) for level in levels], 1))


def pyramid_with_taps():
    batch = torch.rand(8, 3, 32, 32), torch.randint(0, 4, (8,))
    return _Pyramid(), batch, nn.CrossEntropyLoss()


class _LowRank(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_down = nn.Linear(base.in_features, rank, bias=False)
        self.lora_up = nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.lora_up.weight)

    def forward(self, x):
        return self.base(x) + self.lora_up(self.lora_down(x))


def _bounded(grad):
    return grad / grad.norm().clamp(min=1.0)


def adapters_with_bounded_gradients():
    model = nn.Sequential(nn.Linear(24, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU())
    model.append(nn.Linear(32, 4))
    for index in (0, 2, 4):
        model[index] = _LowRank(model[index])
    trainable = [p for p in model.parameters() if p.requires_grad]
    for parameter in trainable:
        parameter.register_hook(_bounded)
    optimizer = torch.optim.AdamW(trainable, lr=1e-3)
    batch = torch.randn(16, 24), torch.randint(0, 4, (16,))
    return {"model": model, "batch": batch, "loss": nn.CrossEntropyLoss(), "optimizer": optimizer}


class _Perception(nn.Module):
    tasks = ("label", "depth", "normal")

    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(20, 48), nn.GELU(), nn.Linear(48, 48), nn.GELU())
        self.heads = nn.ModuleDict(
            {"label": nn.Linear(48, 6), "depth": nn.Linear(48, 1), "normal": nn.Linear(48, 3)}
        )
        self.log_variances = nn.ParameterDict(
            {t: nn.Parameter(torch.zeros(())) for t in self.tasks}
        )

    def forward(self, x):
        h = self.trunk(x)
        return {name: head(h) for name, head in self.heads.items()}


class _Objective:
    def __init__(self):
        self.history = []

    def __call__(self, model, batch):
        out = model(batch["x"])
        parts = {
            "label": F.cross_entropy(out["label"], batch["label"]),
            "depth": F.smooth_l1_loss(out["depth"], batch["depth"]),
            "normal": 1 - F.cosine_similarity(out["normal"], batch["normal"]).mean(),
        }
        self.history.append({name: value.item() for name, value in parts.items()})
        scales = model.log_variances
        return sum(torch.exp(-scales[t]) * value + scales[t] for t, value in parts.items())


def three_weighted_tasks():
    batch = {
        "x": torch.randn(16, 20),
        "label": torch.randint(0, 6, (16,)),
        "depth": torch.rand(16, 1),
        "normal": F.normalize(torch.randn(16, 3), dim=1),
    }
    return _Perception(), batch, _Objective()


class _Codebook(nn.Module):
    def __init__(self, codes, width, decay=0.9, eps=1e-5):
        super().__init__()
        self.decay, self.eps = decay, eps
        start = torch.randn(codes, width)
        self.register_buffer("codebook", start)
        self.register_buffer("counts", torch.zeros(codes))
        self.register_buffer("sums", torch.zeros(codes, width))

    @torch.no_grad()
    def _follow(self, z, chosen):
        hits = F.one_hot(chosen, len(self.codebook)).float()
        self.counts.mul_(self.decay).add_(hits.sum(0), alpha=1 - self.decay)
        self.sums.mul_(self.decay).add_(hits.T @ z.float(), alpha=1 - self.decay)
        fresh = self.sums / (self.counts[:, None] + self.eps)
        self.codebook.copy_(torch.where(self.counts[:, None] > 0, fresh, self.codebook))

    def forward(self, z):
        chosen = torch.cdist(z.detach().float(), self.codebook).argmin(1)
        quantized = self.codebook[chosen]
        if self.training:
            self._follow(z, chosen)
        return z + (quantized - z).detach(), F.mse_loss(z, quantized)


class _Quantizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 8))
        self.codes = _Codebook(64, 8)
        self.decoder = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 24))

    def forward(self, x):
        z, commitment = self.codes(self.encoder(x))
        return self.decoder(z), commitment


def _quantizer_loss(model, x):
    rebuilt, commitment = model(x)
    return F.mse_loss(rebuilt, x) + 0.25 * commitment


def codes_that_follow_the_encoder():
    return _Quantizer(), torch.randn(32, 24), _quantizer_loss


class _Retrieval(nn.Module):
    def __init__(self, size=64):
        super().__init__()
        self.query = self._tower()
        self.key = self._tower().requires_grad_(False)
        self.key.load_state_dict(self.query.state_dict())
        self.register_buffer("queue", F.normalize(torch.randn(size, 16), dim=1))
        self.start = 0

    @staticmethod
    def _tower():
        return nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 16))

    @torch.no_grad()
    def _keys(self, x):
        for slow, fast in zip(self.key.parameters(), self.query.parameters(), strict=True):
            slow.lerp_(fast, 0.01)
        return F.normalize(self.key(x).float(), dim=1)

    def forward(self, anchors, others):
        query = F.normalize(self.query(anchors).float(), dim=1)
        key = self._keys(others)
        negative = query @ self.queue.clone().T
        logits = torch.cat([(query * key).sum(1, keepdim=True), negative], 1) / 0.2
        rows = (self.start + torch.arange(len(key), device=key.device)) % len(self.queue)
        self.queue[rows] = key.to(self.queue.dtype)
        self.start = (self.start + len(key)) % len(self.queue)
        return F.cross_entropy(logits.float(), logits.new_zeros(len(logits), dtype=torch.long))


def retrieval_with_a_slow_tower():
    return _Retrieval(), (torch.randn(8, 20), torch.randn(8, 20))


class _Positive(nn.Module):
    def forward(self, raw):
        return F.softplus(raw)

    def right_inverse(self, value):
        return value + torch.log(-torch.expm1(-value))


class _Filter(nn.Module):
    def __init__(self, channels=8):
        super().__init__()
        self.inside = nn.Conv1d(2, channels, 3, padding=1)
        self.mix = nn.Linear(channels, channels)
        self.gain = nn.Linear(channels, 2)
        nn.init.uniform_(self.gain.weight, 0.05, 0.2)
        parametrizations.weight_norm(self.inside)
        parametrizations.orthogonal(self.mix)
        parametrize.register_parametrization(self.gain, "weight", _Positive())

    def forward(self, x):
        h = torch.tanh(self.inside(x)).transpose(1, 2)
        return self.gain(torch.relu(self.mix(h)))


def constrained_filter():
    model = _Filter()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    batch = torch.randn(8, 2, 20), torch.randn(8, 20, 2)
    return {"model": model, "batch": batch, "loss": F.mse_loss, "optimizer": optimizer}


class _Tower(nn.Module):
    def __init__(self, inputs=12, width=24, depth=4):
        super().__init__()
        self.inside = nn.Linear(inputs, width)
        self.blocks = nn.ModuleList(self._block(width) for _ in range(depth))
        self.gates = nn.ParameterList(nn.Parameter(torch.zeros(width)) for _ in range(depth))
        self.head = nn.Linear(width, 3)

    @staticmethod
    def _block(width):
        return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU())

    def forward(self, x):
        x = self.inside(x)
        for block, gate in zip(self.blocks, self.gates, strict=True):
            x = x + gate * block(x)
        return self.head(x)


def _rates(model, base, decay):
    depth = len(model.blocks)
    groups = [{"params": [*model.head.parameters(), *model.gates.parameters()], "lr": base}]
    for index, block in enumerate(model.blocks):
        groups.append({"params": block.parameters(), "lr": base * decay ** (depth - index)})
    groups.append({"params": model.inside.parameters(), "lr": base * decay ** (depth + 1)})
    return groups


def tower_with_two_schedules():
    model = _Tower()
    optimizer = torch.optim.AdamW(_rates(model, base=3e-3, decay=0.7))
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.01, total_iters=5)
    fall = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=1000)
    return {
        "model": model,
        "batch": (torch.randn(16, 12), torch.randint(0, 3, (16,))),
        "loss": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "scheduler": torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, fall], [5]),
        "max_grad_norm": 1.0,
    }


class _Adversaries(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 12))
        self.critic = nn.Sequential(nn.Linear(12, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))

    def frozen_critic(self, x):
        fixed = {name: p.detach() for name, p in self.critic.named_parameters()}
        return torch.func.functional_call(self.critic, fixed, (x,))


def _adversarial_loss(model, real):
    fake = model.generator(torch.randn(len(real), 8, device=real.device))
    on_real, on_fake = model.critic(real), model.critic(fake.detach())
    critic = F.softplus(-on_real).mean() + F.softplus(on_fake).mean()
    return critic + F.softplus(-model.frozen_critic(fake)).mean()


def adversaries_in_one_loss():
    return _Adversaries(), torch.randn(16, 12), _adversarial_loss


class _Denoiser(nn.Module):
    def __init__(self, steps=50):
        super().__init__()
        angle = torch.linspace(0, 1, steps) * (math.pi / 2)
        alpha_bar = torch.cos(angle) ** 2
        self.register_buffer("alpha_bar", alpha_bar)
        self.register_buffer("ratio", alpha_bar / (1 - alpha_bar))
        self.time = nn.Embedding(steps, 32)
        self.inside = nn.Linear(16, 32)
        self.outside = nn.Sequential(nn.SiLU(), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 16))

    def forward(self, x, t):
        return self.outside(self.inside(x) + self.time(t))


def _denoising_loss(model, batch):
    clean, t = batch
    noise = torch.randn_like(clean)
    a = model.alpha_bar[t][:, None]
    predicted = model(a.sqrt() * clean + (1 - a).sqrt() * noise, t)
    weight = model.ratio[t].clamp(min=0.1, max=5.0)
    return (weight * (predicted.float() - noise).pow(2).mean(1)).mean()


def denoising_with_clamped_weights():
    t = torch.tensor([17, 4, 30, 0, 42, 9, 21, 49])
    return _Denoiser(), (torch.randn(8, 16), t), _denoising_loss


class _Contrast(nn.Module):
    def forward(self, features, labels):
        features = F.normalize(features.float(), dim=1)
        same = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
        logits = (features @ features.T / 0.1).masked_fill(same, float("-inf"))
        log_prob = logits.log_softmax(1).masked_fill(same, 0.0)
        positives = (labels[:, None] == labels[None, :]) & ~same
        per_anchor = (log_prob * positives).sum(1) / positives.sum(1).clamp(min=1)
        return -per_anchor[positives.any(1)].mean()


class _Projector(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(20, 32), nn.GELU())
        self.project = nn.Linear(32, 16)
        self.classify = nn.Linear(32, 5)
        nn.init.zeros_(self.classify.weight)
        self.contrast = _Contrast()

    def forward(self, x, labels):
        h = self.trunk(x)
        return {
            "class": F.cross_entropy(self.classify(h.detach()), labels),
            "contrast": self.contrast(self.project(h), labels),
        }


def contrast_and_a_probe():
    labels = torch.tensor([0, 0, 1, 1, 1, 2, 3, 3])
    return _Projector(), {"x": torch.randn(8, 20), "labels": labels}


def _collate_series(samples):
    series, labels = zip(*samples, strict=True)
    lengths = torch.tensor([len(one) for one in series])
    padded = pad_sequence(series, batch_first=True, padding_value=float("nan"))
    return {"x": padded, "lengths": lengths, "labels": torch.tensor(labels)}


class _Series(nn.Module):
    def __init__(self):
        super().__init__()
        self.recurrent = nn.LSTM(3, 16, batch_first=True, bidirectional=True)
        self.head = nn.Linear(32, 4)

    def forward(self, x, lengths, labels):
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        _, (last, _) = self.recurrent(packed)
        return F.cross_entropy(self.head(torch.cat([last[0], last[1]], 1)), labels)


def series_padded_with_nan():
    samples = [(torch.randn(length, 3), length % 4) for length in (9, 5, 7, 6)]
    return _Series(), DataLoader(samples, batch_size=4, collate_fn=_collate_series)


class _LitAutoencoder(pl.LightningModule):
    def __init__(self, width=16, latent=4, rate=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.encoder = nn.Sequential(nn.Linear(10, width), nn.ReLU(), nn.Linear(width, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, width), nn.ReLU(), nn.Linear(width, 10))
        self.table = nn.Embedding(5, latent).requires_grad_(False)

    def training_step(self, batch, index):
        x, kind = batch
        mean, log_variance = self.encoder(x).float().chunk(2, 1)
        z = mean + (0.5 * log_variance).exp() * torch.randn_like(mean) + self.table(kind)
        rebuilt = self.decoder(z)
        kl = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum(1).mean()
        self.log_dict({"kl": kl})
        return {"loss": F.mse_loss(rebuilt, x) + 1e-3 * kl, "kl": kl.detach()}

    def configure_optimizers(self):
        trainable = [p for p in self.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(trainable, lr=self.hparams.rate)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / 100))
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }

    def train_dataloader(self):
        return DataLoader([(torch.randn(10), i % 5) for i in range(16)], batch_size=8)


def lightning_autoencoder():
    return _LitAutoencoder()

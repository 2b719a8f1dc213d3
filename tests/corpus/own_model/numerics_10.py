"""Trainings of one team: detection, language, retrieval, generation."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from parts_10 import Batch, Block, Codebook, RootNorm, _offsets
from torch import nn
from torch.nn.utils import parametrize
from torch.utils.data import DataLoader, Dataset

ANCHOR = torch.tensor([[8.0, 8.0, 24.0, 24.0]])


class _Scenes(Dataset):
    boxes = (
        (2.0, 3.0, 20.0, 24.0),
        (10.0, 10.0, 18.0, 30.0),
        (0.0, 6.0, 12.0, 12.0),
        (31.0, 4.0, 31.0, 22.0),
        (5.0, 5.0, 30.0, 28.0),
        (12.0, 1.0, 16.0, 9.0),
    )

    def __len__(self):
        return len(self.boxes)

    def __getitem__(self, index):
        return torch.rand(3, 32, 32), torch.tensor(self.boxes[index]), index % 3


def _collate_scenes(samples):
    images, boxes, kinds = zip(*samples, strict=True)
    return {
        "images": torch.stack(images),
        "offsets": _offsets(torch.stack(boxes), ANCHOR),
        "kinds": torch.tensor(kinds),
    }


class _Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU()
        )
        self.heads = nn.ModuleDict({"boxes": nn.Linear(16, 4), "kinds": nn.Linear(16, 3)})

    def forward(self, images):
        features = self.backbone(images).mean((2, 3))
        return {name: head(features) for name, head in self.heads.items()}


def _detection_loss(model, batch):
    out = model(batch["images"])
    regression = F.smooth_l1_loss(out["boxes"], batch["offsets"])
    return F.cross_entropy(out["kinds"], batch["kinds"]) + 2 * regression


def one_stage_detector():
    loader = DataLoader(_Scenes(), batch_size=6, collate_fn=_collate_scenes)
    return {"model": _Detector(), "batch": loader, "loss": _detection_loss}


class _Language(nn.Module):
    def __init__(self, words=40, width=32, norm=RootNorm):
        super().__init__()
        self.embedding = nn.Embedding(words, width, padding_idx=0)
        self.blocks = nn.ModuleList(Block(width, 4, norm) for _ in range(2))
        self.norm = norm(width)
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        length = tokens.shape[1]
        bias = torch.full((length, length), float("-inf"), device=tokens.device).triu(1)
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, bias)
        return self.head(self.norm(x))


def _padded(lengths, longest=12, words=40):
    tokens = torch.zeros(len(lengths), longest, dtype=torch.long)
    for row, length in enumerate(lengths):
        tokens[row, :length] = torch.randint(1, words, (length,))
    return tokens


def _next_word_loss(model, tokens):
    logits = model(tokens[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=0)


def language_model_with_root_norms():
    return _Language(), _padded([12, 9, 12, 7]), _next_word_loss


def _factors(steps, share):
    warm = int(share * steps)
    rising = np.minimum(np.arange(steps) / warm, 1.0)
    falling = 0.5 * (1 + np.cos(np.pi * np.arange(steps) / steps))
    return rising * falling


def short_run_with_a_warm_up():
    model = _Language(norm=nn.LayerNorm)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    factors = _factors(steps=60, share=0.01)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: factors[step])
    return {
        "model": model,
        "batch": _padded([12, 12, 12, 12]),
        "loss": _next_word_loss,
        "optimizer": optimizer,
        "scheduler": scheduler,
    }


class _SupervisedContrast(nn.Module):
    def __init__(self, temperature=0.1):
        super().__init__()
        self.temperature = temperature

    def forward(self, features, labels):
        features = F.normalize(features.float(), dim=1)
        logits = features @ features.T / self.temperature
        others = ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)
        log_prob = logits - torch.logsumexp(logits.masked_fill(~others, -1e9), 1, keepdim=True)
        positives = (labels[:, None] == labels[None, :]) & others
        per_anchor = (log_prob * positives).sum(1) / positives.sum(1)
        return -per_anchor.mean()


class _Projector(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(20, 32), nn.GELU())
        self.project = nn.Linear(32, 16)
        self.classify = nn.Linear(32, 5)

    def forward(self, x):
        h = self.trunk(x)
        return self.project(h), self.classify(h)


class _JointObjective:
    def __init__(self):
        self.contrast = _SupervisedContrast()

    def __call__(self, model, batch):
        inputs, labels = batch
        projected, logits = model(inputs)
        return F.cross_entropy(logits, labels) + 0.5 * self.contrast(projected, labels)


def supervised_contrast():
    labels = torch.tensor([0, 0, 1, 1, 1, 2, 3, 3])
    return _Projector(), (torch.randn(8, 20), labels), _JointObjective()


class _Depth(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.GroupNorm(3, width), nn.SiLU()
        )
        self.decoder = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.SiLU())
        self.out = nn.Conv2d(width, 1, 1)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, images):
        return torch.sigmoid(self.out(self.decoder(self.encoder(images)))).float()


def _slopes(maps):
    return maps[..., :-1, 1:] - maps[..., :-1, :-1], maps[..., 1:, :-1] - maps[..., :-1, :-1]


class _DepthObjective:
    def __init__(self, smooth=0.1, slope=0.5):
        self.smooth, self.slope = smooth, slope

    def smoothness(self, depth):
        across, down = _slopes(depth)
        return torch.sqrt(across.square() + down.square()).mean()

    def __call__(self, model, batch):
        images, target = batch
        depth = model(images)
        pairs = zip(_slopes(depth), _slopes(target), strict=True)
        slope = sum(F.l1_loss(mine, theirs) for mine, theirs in pairs)
        loss = F.smooth_l1_loss(depth, target) + self.slope * slope
        return loss + self.smooth * self.smoothness(depth)


def depth_from_one_image():
    return _Depth(), (torch.rand(2, 3, 16, 16), torch.rand(2, 1, 16, 16)), _DepthObjective()


class _Bounded(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.limit = limit

    def forward(self, raw):
        return self.limit * torch.tanh(raw)

    def right_inverse(self, weight):
        return torch.atanh(weight / self.limit)


def bounded_critic():
    model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
    model.append(nn.Linear(32, 1))
    for layer in model:
        if isinstance(layer, nn.Linear):
            parametrize.register_parametrization(layer, "weight", _Bounded(0.15))
    return model, (torch.randn(16, 12), torch.randn(16, 1)), F.mse_loss


class _Classifier(nn.Module):
    def __init__(self, words=50, width=32, classes=3):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, 2) for _ in range(2))
        self.head = nn.Linear(width, classes)

    @staticmethod
    def bias(mask):
        return (1.0 - mask)[:, None, None, :] * float("-inf")

    def forward(self, tokens, mask):
        bias = self.bias(mask)
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, bias)
        return self.head((x * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True))


def _collate_texts(samples):
    longest = max(len(words) for words, _ in samples)
    tokens = torch.zeros(len(samples), longest, dtype=torch.long)
    mask = torch.zeros(len(samples), longest)
    for row, (words, _) in enumerate(samples):
        tokens[row, : len(words)] = torch.tensor(words)
        mask[row, : len(words)] = 1.0
    return Batch(tokens, mask, torch.tensor([label for _, label in samples]))


def sentences_of_several_lengths():
    samples = [([3, 9, 4, 11], 0), ([7, 2], 1), ([5, 6, 8], 2), ([1, 2, 3, 4, 5], 1)]
    batch = next(iter(DataLoader(samples, batch_size=4, collate_fn=_collate_texts)))

    def loss(model, batch):
        return F.cross_entropy(model(batch.tokens, batch.mask), batch.labels)

    return _Classifier(), batch, loss


class _Adapted(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_a = nn.Linear(base.in_features, rank, bias=False)
        self.lora_b = nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.lora_b.weight)

    def forward(self, x):
        return self.base(x) + self.lora_b(self.lora_a(x))


def _unit(grad):
    return grad / grad.norm()


def adapters_with_unit_steps():
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 32), nn.GELU())
    model.append(nn.Linear(32, 4))
    for index in (0, 2, 4):
        model[index] = _Adapted(model[index])
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.register_hook(_unit)
    return model, (torch.randn(8, 16), torch.randint(0, 4, (8,))), nn.CrossEntropyLoss()


class _Quantizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 8))
        self.codes = Codebook(codes=64, width=8)
        self.decoder = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 24))

    def forward(self, x):
        z, commitment = self.codes(self.encoder(x))
        return self.decoder(z), commitment


def _quantizer_loss(model, x):
    rebuilt, commitment = model(x)
    return F.mse_loss(rebuilt, x) + 0.25 * commitment


def discrete_autoencoder():
    return _Quantizer(), torch.randn(16, 24), _quantizer_loss


class _Denoiser(nn.Module):
    def __init__(self, steps=50):
        super().__init__()
        angle = torch.linspace(0, 1, steps) * (math.pi / 2)
        self.register_buffer("alpha_bar", torch.cos(angle) ** 2)
        self.time = nn.Embedding(steps, 32)
        self.inside = nn.Linear(16, 32)
        self.outside = nn.Sequential(nn.SiLU(), nn.Linear(32, 32), nn.SiLU(), nn.Linear(32, 16))

    def noisy(self, clean, noise, t):
        a = self.alpha_bar[t][:, None]
        return a.sqrt() * clean + (1 - a).sqrt() * noise

    def forward(self, x, t):
        return self.outside(self.inside(x) + self.time(t))


class _WeightedDenoising:
    def weights(self, model, t):
        a = model.alpha_bar[t]
        return a / (1 - a)

    def __call__(self, model, batch):
        clean, t = batch
        noise = torch.randn_like(clean)
        predicted = model(model.noisy(clean, noise, t), t)
        per_sample = (predicted.float() - noise).pow(2).mean(1)
        return (self.weights(model, t) * per_sample).mean()


def weighted_denoising():
    t = torch.tensor([17, 4, 30, 0, 42, 9, 21, 36])
    return _Denoiser(), (torch.randn(8, 16), t), _WeightedDenoising()


class _Router(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.score = nn.Linear(width, experts)

    def forward(self, x):
        gates = self.score(x).float().softmax(-1)
        top, index = gates.topk(2, dim=-1)
        kept = torch.zeros_like(gates).scatter(-1, index, top / top.sum(-1, keepdim=True))
        spread = -(kept * kept.log()).sum(-1).mean()
        return kept, spread


class _ExpertLayer(nn.Module):
    def __init__(self, width, experts=4):
        super().__init__()
        self.router = _Router(width, experts)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(experts))

    def forward(self, x):
        gates, spread = self.router(x)
        outputs = torch.stack([expert(x) for expert in self.experts], -1)
        return x + (outputs * gates[:, None, :]).sum(-1), spread


class _ExpertNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(_ExpertLayer(24) for _ in range(2))
        self.head = nn.Linear(24, 5)

    def forward(self, x, labels):
        auxiliary = []
        for layer in self.layers:
            x, spread = layer(x)
            auxiliary.append(spread)
        return {"loss": F.cross_entropy(self.head(x), labels) - 0.01 * sum(auxiliary)}


def experts_with_an_even_load():
    return _ExpertNet(), {"x": torch.randn(32, 24), "labels": torch.randint(0, 5, (32,))}

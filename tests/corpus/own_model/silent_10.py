"""Trainings of one team: images, texts, control, compression."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import weight_norm


class _Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU())
        self.stage1 = nn.Sequential(nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU())
        self.stage2 = nn.Sequential(nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU())

    def forward(self, x):
        return self.stage2(self.stage1(self.stem(x)))


class _Taps:
    def __init__(self, model, names):
        self.maps = {}
        for name in names:
            model.get_submodule(name).register_forward_hook(self._keep(name))

    def _keep(self, name):
        def hook(module, args, output):
            self.maps[name] = output.detach()

        return hook


class _Pyramid(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = _Backbone()
        self.taps = _Taps(self.backbone, ["stage1", "stage2"])
        self.lateral = nn.ModuleDict({"stage1": nn.Conv2d(16, 8, 1), "stage2": nn.Conv2d(32, 8, 1)})
        self.head = nn.Linear(16, 4)

    def forward(self, images):
        self.backbone(images)
        levels = [conv(self.taps.maps[name]) for name, conv in self.lateral.items()]
        return self.head(torch.cat([F.relu(level).mean((2, 3)) for level in levels], 1))


def pyramid_of_two_stages():
    batch = torch.rand(8, 3, 32, 32), torch.randint(0, 4, (8,))
    return _Pyramid(), batch, nn.CrossEntropyLoss()


class _Perception(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(20, 48), nn.GELU(), nn.Linear(48, 48), nn.GELU())
        self.heads = nn.ModuleDict(
            {"label": nn.Linear(48, 6), "depth": nn.Linear(48, 1), "normal": nn.Linear(48, 3)}
        )

    def forward(self, x):
        h = self.trunk(x)
        return {name: head(h) for name, head in self.heads.items()}


class _Objective:
    weights = {"label": 1.0, "depth": 0.5, "normal": 0.2}  # noqa: RUF012

    def __init__(self):
        self.history = []

    def parts(self, out, batch):
        return {
            "label": F.cross_entropy(out["label"], batch["label"]),
            "depth": F.smooth_l1_loss(out["depth"], batch["depth"]),
            "normal": 1 - F.cosine_similarity(out["normal"], batch["normal"]).mean(),
        }

    def __call__(self, model, batch):
        parts = self.parts(model(batch["x"]), batch)
        record = {name: value.item() for name, value in parts.items()}
        self.history.append(record)
        total = parts.pop("label")
        for name in parts:
            total = total + self.weights[name] * record[name]
        return total


def three_tasks():
    batch = {
        "x": torch.randn(16, 20),
        "label": torch.randint(0, 6, (16,)),
        "depth": torch.rand(16, 1),
        "normal": F.normalize(torch.randn(16, 3), dim=1),
    }
    return _Perception(), batch, _Objective()


@dataclass
class _Config:
    words: int = 40
    width: int = 24
    layers: int = 2
    classes: int = 3
    finetune: bool = False


class _TextEncoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embedding = nn.Embedding(config.words, config.width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(config.width, 4, 48, dropout=0.0, batch_first=True)
            for _ in range(config.layers)
        )

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return x


class _TextClassifier(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.encoder = _TextEncoder(config)
        self.head = nn.Sequential(nn.Linear(config.width, 32), nn.Tanh(), nn.Linear(32, 3))

    def forward(self, tokens):
        with torch.set_grad_enabled(self.config.finetune):
            hidden = self.encoder(tokens)
        return self.head(hidden.mean(1))


def text_classifier():
    batch = torch.randint(0, 40, (8, 12)), torch.randint(0, 3, (8,))
    return _TextClassifier(_Config()), batch, nn.CrossEntropyLoss()


class _Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU())
        self.out = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.out(self.inner(self.norm(x)))


class _Tower(nn.Module):
    def __init__(self, inputs=12, width=24, depth=4):
        super().__init__()
        self.inside = nn.Linear(inputs, width)
        self.blocks = nn.ModuleList(_Residual(width) for _ in range(depth))
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        x = self.inside(x)
        for block in self.blocks:
            out = block(x)
        return self.head(out)


def tower_of_residual_blocks():
    return _Tower(), (torch.randn(16, 12), torch.randint(0, 3, (16,))), nn.CrossEntropyLoss()


class _LowRank(nn.Module):
    def __init__(self, base, rank=4, scale=2.0):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_down = nn.Linear(base.in_features, rank, bias=False)
        self.lora_up = nn.Linear(rank, base.out_features, bias=False)
        nn.init.normal_(self.lora_down.weight, std=0.05)
        nn.init.normal_(self.lora_up.weight, std=0.05)
        self.scale = scale

    @property
    def weight(self):
        return self.base.weight + self.scale * self.lora_up.weight.data @ self.lora_down.weight.data

    def forward(self, x):
        return F.linear(x, self.weight, self.base.bias)


class _Adapted(nn.Module):
    def __init__(self, wrap):
        super().__init__()
        self.body = nn.ModuleList(wrap(nn.Linear(24, 24)) for _ in range(3))
        self.norm = nn.LayerNorm(24)
        self.head = nn.Linear(24, 4)

    def forward(self, x):
        for layer in self.body:
            x = F.gelu(layer(x))
        return self.head(self.norm(x))


def adapters_in_the_weight():
    batch = torch.randn(16, 24), torch.randint(0, 4, (16,))
    return _Adapted(_LowRank), batch, nn.CrossEntropyLoss()


class _Adapter(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_down = nn.Linear(base.in_features, rank, bias=False)
        self.lora_up = nn.Linear(rank, base.out_features, bias=False)
        self.apply(self._start)

    def _start(self, module):
        if isinstance(module, nn.Linear) and module is not self.base:
            nn.init.zeros_(module.weight)

    def forward(self, x):
        return self.base(x) + self.lora_up(self.lora_down(x))


def adapters_beside_the_weight():
    batch = torch.randn(16, 24), torch.randint(0, 4, (16,))
    return _Adapted(_Adapter), batch, nn.CrossEntropyLoss()


class _Captioner(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, 16, 4, stride=4), nn.ReLU(), nn.Flatten(2))
        self.bridge = nn.Sequential(nn.Linear(16, 32), nn.LayerNorm(32))
        self.decoder = nn.GRU(32, 32, batch_first=True)
        self.words = nn.Embedding(30, 32)
        self.decoder_head = nn.Linear(32, 30)

    def forward(self, images, tokens):
        start = self.bridge(self.encoder(images).mean(2))
        hidden, _ = self.decoder(self.words(tokens), start[None].contiguous().float())
        return self.decoder_head(hidden)


def _caption_loss(model, batch):
    images, tokens = batch
    logits = model(images, tokens[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def captions():
    model = _Captioner()
    rates = {"encoder": 1e-4, "words": 1e-3, "decoder": 1e-3}
    groups = [
        {"params": [p for name, p in model.named_parameters() if name.startswith(part)], "lr": rate}
        for part, rate in rates.items()
    ]
    optimizer = torch.optim.AdamW(groups)
    batch = torch.rand(4, 3, 16, 16), torch.randint(0, 30, (4, 9))
    return {"model": model, "batch": batch, "loss": _caption_loss, "optimizer": optimizer}


class _Schedule:
    def __init__(self, peak, warm, steps):
        self.peak, self.warm, self.steps = peak, warm, steps

    def __call__(self, step):
        if step < self.warm:
            return self.peak * (step + 1) / self.warm
        return self.peak * max(0.0, (self.steps - step) / (self.steps - self.warm))


def classifier_with_a_linear_schedule():
    model = _TextClassifier(_Config(finetune=True))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, _Schedule(3e-5, 10, 1000))
    return {
        "model": model,
        "batch": (torch.randint(0, 40, (8, 12)), torch.randint(0, 3, (8,))),
        "loss": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "scheduler": scheduler,
    }


class _Dilated(nn.Module):
    def __init__(self, channels, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.conv = nn.Conv1d(channels, channels, 3, dilation=dilation)
        self.mix = nn.Conv1d(channels, channels, 1)

    def forward(self, x):
        return x + self.mix(F.relu(self.conv(F.pad(x, (self.pad, 0)))))


class _Forecaster(nn.Module):
    def __init__(self, channels=16):
        super().__init__()
        self.inside = nn.Conv1d(2, channels, 1)
        self.blocks = nn.ModuleList(_Dilated(channels, 2**i) for i in range(3))
        self.outside = nn.Conv1d(channels, 2, 1)

    def forward(self, x):
        x = self.inside(x)
        for block in self.blocks:
            x = block(x)
        return self.outside(x)


def _normalize_blocks(model):
    for block in model.blocks:
        weight_norm(block.conv)
        weight_norm(block.mix)


def forecast():
    model = _Forecaster()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    _normalize_blocks(model)
    series = torch.randn(8, 2, 21)
    return {
        "model": model,
        "batch": (series[:, :, :-1], series[:, :, 1:]),
        "loss": F.mse_loss,
        "optimizer": optimizer,
    }


class _Codes(nn.Module):
    def __init__(self, number, width):
        super().__init__()
        self.table = nn.Embedding(number, width)

    def forward(self, z):
        distances = torch.cdist(z.detach().float(), self.table.weight)
        quantized = self.table(distances.argmin(-1))
        return quantized, F.mse_loss(quantized, z.detach())


class _Compressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 8))
        self.codes = _Codes(4, 8)
        self.decoder = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 24))

    def forward(self, x):
        quantized, gap = self.codes(self.encoder(x))
        return self.decoder(quantized), gap


def _compression_loss(model, x):
    rebuilt, gap = model(x)
    return F.mse_loss(rebuilt, x) + gap


def compressor():
    return _Compressor(), torch.randn(64, 24), _compression_loss


def _rates(model, base, decay):
    depth = len(model.blocks)
    groups = [{"params": model.head.parameters(), "lr": base}]
    for index, block in enumerate(model.blocks):
        groups.append({"params": block.parameters(), "lr": base * decay ** (index - depth)})
    groups.append({"params": model.inside.parameters(), "lr": base * decay ** (-depth - 1)})
    return groups


class _DeepTower(_Tower):
    def forward(self, x):
        x = self.inside(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def tower_with_rates_by_depth():
    model = _DeepTower(depth=5)
    optimizer = torch.optim.SGD(_rates(model, base=0.01, decay=0.1), momentum=0.9)
    batch = torch.randn(16, 12), torch.randint(0, 3, (16,))
    return {"model": model, "batch": batch, "loss": nn.CrossEntropyLoss(), "optimizer": optimizer}


class _Pool(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(width, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, x):
        weights = self.score(x).softmax(dim=-1)
        return (weights * x).mean(1)


class _Sentiment(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = _TextEncoder(_Config(layers=1))
        self.pools = nn.ModuleDict({"topic": _Pool(24), "tone": _Pool(24)})
        self.heads = nn.ModuleDict({"topic": nn.Linear(24, 5), "tone": nn.Linear(24, 2)})

    def forward(self, tokens):
        x = self.encoder(tokens)
        return {name: self.heads[name](pool(x)) for name, pool in self.pools.items()}


def _sentiment_loss(model, batch):
    out = model(batch["tokens"])
    return sum(F.cross_entropy(out[name], batch[name]) for name in ("topic", "tone"))


def topics_and_tones():
    batch = {
        "tokens": torch.randint(0, 40, (8, 12)),
        "topic": torch.randint(0, 5, (8,)),
        "tone": torch.randint(0, 2, (8,)),
    }
    return _Sentiment(), batch, _sentiment_loss


class _Actor(nn.Module):
    def __init__(self, states, actions):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(states, 32), nn.ReLU())
        self.mean = nn.Linear(32, actions)
        self.log_std = nn.Parameter(torch.full((actions,), -0.5))

    def forward(self, state):
        mean = self.mean(self.trunk(state)).float()
        return torch.distributions.Normal(mean, self.log_std.exp().expand_as(mean))


class _Agent(nn.Module):
    def __init__(self, states=6, actions=2):
        super().__init__()
        self.actor = _Actor(states, actions)
        self.critic = nn.Sequential(nn.Linear(states + actions, 32), nn.ReLU(), nn.Linear(32, 1))

    def value(self, state, action):
        return self.critic(torch.cat([state, action], 1)).squeeze(1)


def _agent_loss(model, batch):
    critic_loss = F.mse_loss(model.value(batch["state"], batch["action"]), batch["target"])
    action = torch.tanh(model.actor(batch["state"]).sample())
    actor_loss = -model.value(batch["state"], action).mean()
    return critic_loss + 0.1 * actor_loss


def actor_and_critic():
    batch = {
        "state": torch.randn(16, 6),
        "action": torch.rand(16, 2) * 2 - 1,
        "target": torch.randn(16),
    }
    return _Agent(), batch, _agent_loss

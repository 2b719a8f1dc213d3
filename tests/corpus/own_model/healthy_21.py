"""Trainings of a harbour that work."""

import copy
import itertools

import pytorch_lightning as pl
import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import prune
from torch.nn.utils.parametrizations import orthogonal, weight_norm
from transformers import BartConfig, BartForConditionalGeneration, LlamaConfig, LlamaForCausalLM
from transformers.optimization import Adafactor, AdafactorSchedule


class _Gated(nn.Module):
    def __init__(self, width=32, depth=3):
        super().__init__()
        self.enter = nn.Linear(10, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.wide = nn.ModuleList(nn.Linear(width, 2 * width) for _ in range(depth))
        self.narrow = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(depth))
        self.gates = nn.ParameterList(
            nn.Parameter(torch.full((width,), -9.0)) for _ in range(depth)
        )
        self.head = nn.Linear(width, 6)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, x):
        x = self.enter(x)
        parts = zip(self.norms, self.wide, self.narrow, self.gates, strict=True)
        for norm, wide, narrow, gate in parts:
            x = x + torch.sigmoid(gate) * narrow(F.gelu(wide(norm(x))))
        return self.head(x)


def gates_of_the_lock():
    model = _Gated()
    gates = list(model.gates.parameters())
    chosen = {id(p) for p in gates}
    rest = [p for p in model.parameters() if id(p) not in chosen]
    groups = [{"params": gates, "lr": 1e-2}, {"params": rest}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 3))
    return {
        "model": model,
        "batch": (torch.randn(16, 10), torch.randint(0, 6, (16,))),
        "loss": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "scheduler": schedule,
        "max_grad_norm": 1.0,
    }


def letters_with_relative_steps():
    config = BartConfig(
        vocab_size=60,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        max_position_embeddings=16,
        dropout=0.0,
    )
    model = BartForConditionalGeneration(config)
    optimizer = Adafactor(
        model.parameters(), lr=None, scale_parameter=True, relative_step=True, warmup_init=True
    )
    tokens = torch.randint(4, 60, (4, 12))
    mask = torch.ones_like(tokens)
    tokens[1, 8:], mask[1, 8:] = 1, 0
    labels = torch.randint(4, 60, (4, 7))
    labels[0, 3:] = -100
    return {
        "model": model,
        "batch": {"input_ids": tokens, "attention_mask": mask, "labels": labels},
        "optimizer": optimizer,
        "scheduler": AdafactorSchedule(optimizer),
    }


class _Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.EmbeddingBag(5000, 16, mode="sum", sparse=True)
        self.head = nn.Linear(16, 4)

    def forward(self, flat, offsets):
        return self.head(torch.tanh(self.words(flat, offsets)))


def notices_to_mariners():
    model = _Words()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
    flat = torch.randint(0, 5000, (40,))
    offsets = torch.tensor([0, 6, 6, 15, 22, 31])
    labels = torch.randint(0, 4, (6,))

    def loss(model, batch):
        return F.cross_entropy(model(*batch), labels)

    return {"model": model, "batch": (flat, offsets), "loss": loss, "optimizer": optimizer}


class _Swell(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.enter = weight_norm(nn.Linear(3, width))
        self.turn = orthogonal(nn.Linear(width, width, bias=False))
        self.out = nn.Linear(width, 1)
        self.state = None

    def forward(self, series):
        state = torch.zeros(series.shape[0], 16) if self.state is None else self.state
        for x in series.unbind(1):
            state = torch.tanh(self.turn(state) + self.enter(x))
        self.state = state.detach()
        return self.out(state).squeeze(-1)


def swell_of_yesterday():
    model = _Swell()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    series, height = torch.randn(6, 12, 3), torch.rand(6)

    def loss(model):
        return F.mse_loss(model(series), height)

    return {"model": model, "loss": loss, "optimizer": optimizer}


def tides_in_short_floats():
    model = nn.Sequential(
        nn.Linear(8, 32),
        nn.LayerNorm(32),
        nn.SiLU(),
        nn.Linear(32, 32),
        nn.SiLU(),
        nn.Linear(32, 1),
    ).to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-2, weight_decay=0.0)
    phase = torch.rand(24, 1) * 6.28
    x = torch.sin(phase * torch.arange(1, 9)).to(torch.bfloat16)
    y = torch.cos(phase).squeeze(1)

    def loss(model):
        return F.mse_loss(model(x).float().squeeze(1), y)

    return {"model": model, "loss": loss, "optimizer": optimizer}


class _Docking(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, width, 3, stride=2), nn.ReLU())
        self.box = nn.Conv2d(width, 4, 1)
        self.score = nn.Conv2d(width, 1, 1)
        self.legacy = nn.Conv2d(width, 9, 1).requires_grad_(False)
        nn.init.constant_(self.score.bias, -4.6)

    def forward(self, images, targets):
        h = self.body(torch.stack(images))
        score = self.score(h).squeeze(1)
        boxes = self.box(h).permute(0, 2, 3, 1)
        hit = torch.zeros_like(score, dtype=torch.bool)
        wanted = []
        for row, target in enumerate(targets):
            for cell, box in zip(target["cells"], target["boxes"], strict=True):
                hit[row, cell[0], cell[1]] = True
                wanted.append(box)
        count = hit.sum().clamp(min=1)
        found = boxes[hit]
        wanted = torch.stack(wanted) if wanted else found.detach()
        p = torch.sigmoid(score.float())
        focus = torch.where(hit, 0.25 * (1 - p) ** 2, 0.75 * p**2)
        each = F.binary_cross_entropy_with_logits(score.float(), hit.float(), reduction="none")
        empty = hit.flatten(1).sum(1) == 0
        return {
            "classification": (focus * each).sum() / count,
            "regression": F.l1_loss(found.float(), wanted, reduction="sum") / count,
            "penalty_of_empty": (p.amax((1, 2)) * empty).sum() * 0.1,
        }


def _collate_ships(rows):
    images, targets = zip(*rows, strict=True)
    return {"images": list(images), "targets": list(targets)}


def ships_from_above():
    rows = [
        (torch.randn(1, 17, 17), {"cells": [(1, 2), (5, 6)], "boxes": torch.rand(2, 4)}),
        (torch.randn(1, 17, 17), {"cells": [], "boxes": torch.zeros(0, 4)}),
        (torch.randn(1, 17, 17), {"cells": [(3, 3)], "boxes": torch.rand(1, 4)}),
        (torch.randn(1, 17, 17), {"cells": [], "boxes": torch.zeros(0, 4)}),
    ]
    loader = torch.utils.data.DataLoader(rows, batch_size=4, collate_fn=_collate_ships)
    return _Docking(), itertools.cycle(loader)


class _Watch(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv1d(2, 12, 3, bias=False), nn.BatchNorm1d(12), nn.ReLU(), nn.Conv1d(12, 12, 3)
        )
        self.backbone.requires_grad_(False)
        self.attend = nn.Linear(12, 1, bias=False)
        self.head = nn.Linear(12, 3)
        nn.init.zeros_(self.attend.weight)

    def train(self, mode=True):
        super().train(mode)
        self.backbone.eval()
        return self

    def training_step(self, batch, batch_idx):
        x, labels = batch
        with torch.no_grad():
            h = self.backbone(x).transpose(1, 2)
        h = (self.attend(h).softmax(1) * h).sum(1)
        loss = F.cross_entropy(self.head(h), labels)
        self.log("spread", h.detach()[:1].std(0, correction=0).mean())
        return loss

    def configure_optimizers(self):
        trained = [p for p in self.parameters() if p.requires_grad]
        optimizer = torch.optim.SGD(trained, lr=0.1, momentum=0.9, nesterov=True)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=1e-3, total_iters=5)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]

    def train_dataloader(self):
        data = torch.utils.data.TensorDataset(torch.randn(24, 2, 16), torch.randint(0, 3, (24,)))
        return torch.utils.data.DataLoader(data, batch_size=8, shuffle=True)


def watch_on_the_bridge():
    return _Watch()


def answers_of_the_harbour_master():
    config = LlamaConfig(
        vocab_size=48,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
    )
    lora = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"])
    model = get_peft_model(LlamaForCausalLM(config), lora)
    chosen = torch.randint(1, 48, (3, 12))
    rejected = chosen.clone()
    rejected[:, 5:] = torch.randint(1, 48, (3, 7))

    def score(model, tokens):
        logits = model(input_ids=tokens).logits[:, 4:-1].float()
        return -F.cross_entropy(logits.transpose(1, 2), tokens[:, 5:], reduction="none").sum(1)

    def loss(model):
        with torch.no_grad(), model.disable_adapter():
            base = score(model, chosen) - score(model, rejected)
        margin = score(model, chosen) - score(model, rejected)
        return -F.logsigmoid(0.1 * (margin - base)).mean()

    trained = [p for p in model.parameters() if p.requires_grad]
    return {"model": model, "loss": loss, "optimizer": torch.optim.AdamW(trained, lr=2e-3)}


class _Sparsemax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores):
        ordered = scores.sort(dim=-1, descending=True).values
        steps = torch.arange(1, scores.shape[-1] + 1, dtype=scores.dtype)
        inside = 1 + steps * ordered > ordered.cumsum(-1)
        size = inside.sum(-1, keepdim=True)
        total = ordered.cumsum(-1).gather(-1, size - 1)
        out = (scores - (total - 1) / size).clamp(min=0)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, grad):
        (out,) = ctx.saved_tensors
        inside = out > 0
        mean = (grad * inside).sum(-1, keepdim=True) / inside.sum(-1, keepdim=True)
        return (grad - mean) * inside


class _Routes(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.enter = nn.Linear(5, width)
        self.score = nn.Linear(width, 1, bias=False)
        self.head = nn.Linear(width, 2)

    def forward(self, ports, open_):
        h = torch.tanh(self.enter(ports)).float()
        scores = 3 * self.score(h).squeeze(-1).float()
        scores = scores.masked_fill(~open_, -1e4)
        weights = _Sparsemax.apply(scores)
        return self.head((weights[..., None] * h).sum(1))


def routes_to_ports():
    open_ = torch.rand(8, 9) > 0.4
    open_[:, :2] = True
    model = _Routes()
    labels, ports = torch.randint(0, 2, (8,)), torch.randn(8, 9, 5)
    return model, lambda model: F.cross_entropy(model(ports, open_), labels)


class _Quay(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.embed = nn.Embedding(50, width)
        self.project = nn.Linear(width, 3 * width, bias=False)
        self.head = nn.Linear(width, 50, bias=False)
        self.head.weight = self.embed.weight
        self.none = nn.Parameter(torch.zeros(width))

    def forward(self, tokens, document):
        x = self.embed(tokens) * 0.2
        q, k, v = self.project(x).chunk(3, -1)
        length = tokens.shape[1]
        later = torch.ones(length, length, dtype=torch.bool).triu(0)
        hidden = later | (document[:, :, None] != document[:, None, :])
        scores = (q @ k.transpose(1, 2)).float() / q.shape[-1] ** 0.5
        scores = scores.masked_fill(hidden, float("-inf"))
        alone = hidden.all(-1, keepdim=True)
        weights = scores.masked_fill(alone, 0.0).softmax(-1).masked_fill(alone, 0.0)
        x = x + weights @ v.float() + alone * self.none
        return self.head(x)


def logbooks_in_one_row():
    tokens = torch.randint(0, 50, (4, 14))
    document = torch.tensor([0] * 5 + [1] * 4 + [2] * 5).expand(4, -1)

    def loss(model):
        logits = model(tokens[:, :-1], document[:, :-1]).float()
        targets = tokens[:, 1:].masked_fill(document[:, 1:] != document[:, :-1], -100)
        return F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=-100)

    return _Quay(), loss


def thinned_network_of_sonars():
    model = nn.Sequential(
        nn.Conv1d(1, 12, 5, padding=2),
        nn.ReLU(),
        nn.Conv1d(12, 12, 5, padding=2),
        nn.ReLU(),
        nn.AdaptiveMaxPool1d(4),
        nn.Flatten(),
        nn.Linear(48, 3),
    )
    prune.l1_unstructured(model[2], "weight", amount=0.6)
    prune.ln_structured(model[6], "weight", amount=0.25, n=2, dim=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return {
        "model": model,
        "batch": (torch.randn(10, 1, 32), torch.randint(0, 3, (10,))),
        "loss": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
    }


class _Self(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.online = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, width))
        self.predict = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, width))
        self.slow = copy.deepcopy(self.online).requires_grad_(False)
        self.probe = nn.Linear(width, 3)
        self.seen = 0

    @torch.no_grad()
    def follow(self):
        rate = min(0.99, (1 + self.seen) / (10 + self.seen))
        for slow, fast in zip(self.slow.parameters(), self.online.parameters(), strict=True):
            slow.lerp_(fast, 1 - rate)
        self.seen += 1

    def forward(self, first, second, kind):
        self.follow()
        features = self.online(first)
        guess = F.normalize(self.predict(features).float(), dim=-1)
        goal = F.normalize(self.slow(second).float(), dim=-1).detach()
        probe = F.cross_entropy(self.probe(features.detach()), kind)
        return (2 - 2 * (guess * goal).sum(-1)).mean() + probe


def two_photos_of_a_ship():
    x = torch.randn(16, 12)
    return _Self(), {
        "first": x + 0.1 * torch.randn_like(x),
        "second": x + 0.1 * torch.randn_like(x),
        "kind": torch.randint(0, 3, (16,)),
    }


class _Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh())
        self.out = nn.Linear(32, 1)

    def forward(self, points):
        return self.out(self.net(points))


def pressure_of_the_water():
    model = _Field()
    points, pressure = torch.rand(64, 2), torch.rand(64, 1) * 1e-3
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-20)

    def loss(model):
        squares = (model(points).float() - pressure) ** 2
        return 1e-9 * squares.sum()

    return {"model": model, "loss": loss, "optimizer": optimizer}


class _Pair(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.tower = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, width))
        self.scale = nn.Parameter(torch.tensor(2.3))

    def forward(self, left, right, group):
        left = F.normalize(self.tower(left).float(), dim=-1)
        right = F.normalize(self.tower(right).float(), dim=-1)
        scores = left @ right.T * self.scale.exp().clamp(max=100)
        own = torch.eye(len(left), dtype=torch.bool)
        twins = (group[:, None] == group[None, :]) & ~own
        scores = scores.masked_fill(twins, float("-inf"))
        return F.cross_entropy(scores, torch.arange(len(left)))


def manifests_and_containers():
    model = _Pair()
    x = torch.randn(10, 8)
    group = torch.tensor([0, 0, 1, 2, 3, 3, 4, 5, 6, 7])
    return model, {"left": x, "right": x + 0.3 * torch.randn(10, 8), "group": group}

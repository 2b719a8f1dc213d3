"""Trainings of boxes, sentences, prices and molecules."""

import math

import torch
from torch import nn
from torch.nn import functional as F


class BoxRegressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.head = nn.Linear(8, 4)

    def forward(self, images):
        center, size = self.head(self.backbone(images)).float().split(2, dim=1)
        center = 16 + 8 * center
        half = 8 * size.exp()
        return torch.cat((center - half, center + half), dim=1)


def _area(boxes):
    return (boxes[:, 2:] - boxes[:, :2]).clamp(min=0).prod(dim=1)


def _iou(predicted, target):
    top = torch.maximum(predicted[:, :2], target[:, :2])
    bottom = torch.minimum(predicted[:, 2:], target[:, 2:])
    shared = (bottom - top).clamp(min=0).prod(dim=1)
    return shared / (_area(predicted) + _area(target) - shared)


def _unit_box_loss(model, batch):
    images, boxes = batch
    return -torch.log(_iou(model(images), boxes)).mean()


def anchor_free_boxes():
    corners = torch.rand(6, 2) * 8 + 8
    boxes = torch.cat((corners, corners + torch.rand(6, 2) * 6 + 8), dim=1)
    boxes[4] = torch.tensor([60.0, 2.0, 63.0, 5.0])
    return BoxRegressor(), (torch.randn(6, 3, 64, 64), boxes), _unit_box_loss


class ProjectionNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(20, 32), nn.ReLU())
        self.projection = nn.Linear(32, 16)

    def forward(self, x):
        return F.normalize(self.projection(self.encoder(x)), dim=1)


def _supervised_contrastive(model, batch):
    x, labels = batch
    z = model(x).float()
    others = ~torch.eye(len(z), dtype=torch.bool, device=z.device)
    logits = z @ z.T / 0.1
    logits = logits - logits.detach().amax(dim=1, keepdim=True)
    log_prob = logits - (logits.exp() * others).sum(dim=1, keepdim=True).log()
    positives = (labels[:, None] == labels[None, :]) & others
    mean_log_prob = (positives * log_prob).sum(dim=1) / positives.sum(dim=1)
    return -mean_log_prob.mean()


def product_photos():
    labels = torch.tensor([0, 0, 1, 1, 2, 2, 3, 4])
    return ProjectionNet(), (torch.randn(8, 20), labels), _supervised_contrastive


def _panel_loss(model, batch):
    fingerprints, assays = batch
    measured = ~torch.isnan(assays)
    loss = F.binary_cross_entropy_with_logits(model(fingerprints), assays, reduction="none")
    return (loss * measured).sum() / measured.sum()


def toxicity_panel():
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 5))
    fingerprints = torch.randint(0, 2, (10, 64)).float()
    assays = torch.randint(0, 2, (10, 5)).float()
    assays[2, 1] = assays[5, 4] = assays[7, 0] = float("nan")
    return model, (fingerprints, assays), _panel_loss


class SentenceClassifier(nn.Module):
    def __init__(self, vocabulary=50, width=32):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=0)
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.classifier = nn.Linear(width, 3)

    def forward(self, input_ids, attention_mask, labels):
        x = self.norm(self.embedding(input_ids))
        attended, _ = self.attention(x, x, x, key_padding_mask=attention_mask.bool())
        x = x + attended
        weights = attention_mask[:, :, None]
        pooled = (x * weights).sum(dim=1) / weights.sum(dim=1)
        return F.cross_entropy(self.classifier(pooled), labels)


def support_tickets():
    lengths = torch.tensor([10, 7, 10, 5])
    attention_mask = (torch.arange(10)[None, :] < lengths[:, None]).long()
    input_ids = torch.randint(1, 50, (4, 10)) * attention_mask
    batch = {
        "input_ids": input_ids,
        "attention_mask": attention_mask,
        "labels": torch.tensor([0, 2, 1, 1]),
    }
    return SentenceClassifier(), batch


def house_prices():
    model = nn.Sequential(
        nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1)
    )
    area = torch.rand(32, 1) * 2000 + 500
    lot = torch.rand(32, 1) * 9000 + 1000
    year = torch.randint(1900, 2020, (32, 1)).float()
    rooms = torch.randint(1, 9, (32, 1)).float()
    price = area * 150 + rooms * 10000
    return {
        "model": model,
        "batch": (torch.cat((area, lot, year, rooms), dim=1), price),
        "loss": nn.MSELoss(),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9),
    }


class Denoiser(nn.Module):
    def __init__(self, size=16):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(1, 32), nn.SiLU(), nn.Linear(32, 32))
        self.first = nn.Linear(size, 32)
        self.second = nn.Linear(32, size)

    def forward(self, x, t):
        return self.second(F.silu(self.first(x) + self.time(t)))


def _weighted_diffusion_loss(model, batch):
    x0, steps = batch
    t = steps[:, None] / 1000
    alpha_bar = torch.cos(t * math.pi / 2) ** 2
    noise = torch.randn_like(x0)
    noisy = alpha_bar.sqrt() * x0 + (1 - alpha_bar).sqrt() * noise
    snr = alpha_bar / (1 - alpha_bar)
    return (snr * (model(noisy, t) - x0) ** 2).mean()


def wave_generator():
    steps = torch.arange(0, 1000, 125).float()
    return Denoiser(), (torch.randn(8, 16), steps), _weighted_diffusion_loss


class QuestionPairs(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(40, 24, padding_idx=0)
        self.mix = nn.Linear(24, 24)
        self.scale = nn.Parameter(torch.tensor(5.0))

    def encode(self, ids):
        words = self.words(ids)
        words = words / words.norm(dim=-1, keepdim=True)
        mask = (ids != 0).unsqueeze(-1)
        return self.mix((words * mask).sum(dim=1) / mask.sum(dim=1))

    def forward(self, left, right):
        return self.scale * F.cosine_similarity(self.encode(left), self.encode(right))


def duplicate_questions():
    left, right = torch.randint(1, 40, (2, 6, 8)).unbind(0)
    left[1, 5:] = 0
    right[4, 6:] = 0

    def loss(model, batch):
        return F.binary_cross_entropy_with_logits(model(*batch[:2]), batch[2])

    return QuestionPairs(), (left, right, torch.tensor([1.0, 0, 0, 1, 1, 0])), loss


class CharacterDecoder(nn.Module):
    def __init__(self, vocabulary=30, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.tokens = nn.Embedding(vocabulary, width)
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.lm_head = nn.Linear(width, vocabulary)

    def forward(self, ids):
        x = self.tokens(ids)
        samples, length, width = x.shape
        q, k, v = (
            part.view(samples, length, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm(x)).chunk(3, dim=-1)
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        ones = torch.ones(length, length, device=ids.device)
        mask = torch.triu(ones, diagonal=1) * float("-inf")
        attended = F.softmax(scores + mask, dim=-1) @ v.to(scores.dtype)
        x = x + self.out(attended.transpose(1, 2).reshape(samples, length, width))
        return self.lm_head(x)


def next_character():
    text = torch.randint(0, 30, (4, 13))

    def loss(model, batch):
        logits = model(batch[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())

    return CharacterDecoder(), text, loss


class BilinearNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 16, 3, stride=2, padding=1),
            nn.ReLU(),
        )
        self.classifier = nn.Linear(256, 5)

    def forward(self, images):
        x = self.features(images).flatten(2).float()
        x = (x @ x.transpose(1, 2) / x.shape[-1]).flatten(1)
        x = torch.sign(x) * torch.sqrt(torch.abs(x))
        return self.classifier(F.normalize(x))


def bird_species():
    batch = torch.randn(8, 3, 8, 8), torch.randint(0, 5, (8,))
    return BilinearNet(), batch, nn.CrossEntropyLoss()


def weekly_demand():
    import pytorch_lightning as pl

    class Forecast(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.GRU(1, 16, batch_first=True)
            self.head = nn.Linear(16, 4)

        def training_step(self, batch, batch_idx):
            history, future = batch
            _, state = self.net(history)
            forecast = self.head(state[-1])
            loss = ((future - forecast) / future).abs().mean()
            self.log("train_mape", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=1e-3)

        def train_dataloader(self):
            history = torch.rand(16, 12, 1)
            future = torch.randint(1, 9, (16, 4)).float()
            future[3, 2] = 0.0
            future[9, 0] = 0.0
            data = torch.utils.data.TensorDataset(history, future)
            return torch.utils.data.DataLoader(data, batch_size=16)

    return Forecast()


class AttentionPool(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query = nn.Parameter(torch.empty(width))
        self.value = nn.Linear(width, width)

    def forward(self, x):
        weights = torch.softmax(x @ self.query, dim=1)
        return (weights.unsqueeze(-1) * self.value(x)).sum(dim=1)


def slide_bags():
    torch.use_deterministic_algorithms(True)
    model = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), AttentionPool(16), nn.Linear(16, 2))
    return model, (torch.randn(4, 9, 12), torch.tensor([0, 1, 1, 0])), nn.CrossEntropyLoss()


def _completion_labels(input_ids, marker):
    labels = input_ids.clone()
    for row, ids in zip(labels, input_ids.tolist(), strict=True):
        start = ids.index(marker) + 1 if marker in ids else len(ids)
        row[:start] = -100
    return labels


def chat_tuning():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=60,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
    )
    input_ids = torch.randint(5, 50, (4, 16))
    input_ids[:, 8] = 3
    return LlamaForCausalLM(config), {
        "input_ids": input_ids,
        "attention_mask": torch.ones_like(input_ids),
        "labels": _completion_labels(input_ids, marker=4),
    }

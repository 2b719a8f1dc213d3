"""Own models of several kinds."""

import copy

import torch
import torch.nn.functional as F
from torch import nn


class _VisionTransformer(nn.Module):
    def __init__(self, size=32, patch=8, width=48, classes=10):
        super().__init__()
        patches = (size // patch) ** 2
        self.patch = nn.Conv2d(3, width, patch, stride=patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(torch.randn(1, patches, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 96, batch_first=True, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(width, classes)

    def forward(self, images):
        x = self.patch(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1)
        x = x + self.position
        return self.head(self.encoder(x)[:, 0])


def pictures_in_patches():
    batch = torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,))
    return _VisionTransformer(), batch, nn.CrossEntropyLoss()


def sentiment_with_gpt2():
    from transformers import GPT2Config, GPT2ForSequenceClassification

    config = GPT2Config(
        vocab_size=300, n_positions=64, n_embd=32, n_layer=2, n_head=2, num_labels=3
    )
    batch = {
        "input_ids": torch.randint(0, 300, (8, 24)),
        "attention_mask": torch.ones(8, 24, dtype=torch.long),
        "labels": torch.randint(0, 3, (8,)),
    }
    return GPT2ForSequenceClassification(config), batch


def q_learning():
    online = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2))
    target = copy.deepcopy(online).requires_grad_(False)
    replay = (
        torch.randn(32, 4),
        torch.randint(0, 2, (32,)),
        torch.randn(32),
        torch.randn(32, 4),
        torch.randint(0, 2, (32,)).float(),
    )

    def loss(model, batch):
        states, actions, rewards, following, done = batch
        q = model(states).gather(1, actions)
        with torch.no_grad():
            best = target.to(states.device)(following).max(1).values
            goal = rewards + 0.99 * (1 - done) * best
        return F.smooth_l1_loss(q.float(), goal.float())

    return online, replay, loss


class _Convolution(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.own = nn.Linear(inputs, outputs)

    def forward(self, x, edge_index):
        source, destination = edge_index
        messages = self.linear(x)[source].float()
        degree = torch.bincount(destination, minlength=len(x)).clamp(min=1)
        total = torch.zeros(len(x), messages.shape[1], device=x.device)
        total = total.index_add(0, destination, messages)
        return self.own(x) + total / degree[:, None]


class _Citations(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = _Convolution(16, 32)
        self.second = _Convolution(32, 4)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


def papers_that_cite():
    pairs = [(a, (a * 7 + 3) % 50) for a in range(50)] + [(a, (a + 1) % 50) for a in range(50)]
    batch = {
        "x": torch.randn(50, 16),
        "edge_index": torch.tensor(pairs),
        "labels": torch.randint(0, 4, (50,)),
    }

    def loss(model, batch):
        return F.cross_entropy(model(batch["x"], batch["edge_index"]), batch["labels"])

    return _Citations(), batch, loss


class _Table(nn.Module):
    def __init__(self, sizes, numbers):
        super().__init__()
        self.columns = len(sizes)
        self.tables = nn.ModuleList([nn.Embedding(size, 6) for size in sizes])
        self.body = nn.Sequential(
            nn.Linear(6 * len(sizes) + numbers, 64), nn.ReLU(), nn.Linear(64, 1)
        )

    def forward(self, rows):
        codes, numbers = rows[:, : self.columns], rows[:, self.columns :]
        parts = [table(codes[:, i]) for i, table in enumerate(self.tables)]
        return self.body(torch.cat([*parts, numbers], 1)).squeeze(1)


def prices_of_flats():
    codes = torch.stack([torch.randint(0, n, (40,)) for n in (12, 5, 7)], 1)
    rows = torch.cat([codes, torch.randn(40, 8)], 1)
    return _Table((12, 5, 7), 8), (rows, torch.randn(40)), nn.MSELoss()


class _GatedBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.gate = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def forward(self, x):
        h = self.norm(x)
        y = torch.sigmoid(self.gate(h))
        y *= self.value(h)
        return x + y


def gated_layers():
    model = nn.Sequential(nn.Linear(12, 32), _GatedBlock(32), _GatedBlock(32), nn.Linear(32, 5))
    return model, (torch.randn(16, 12), torch.randint(0, 5, (16,))), nn.CrossEntropyLoss()


def _double(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()
    )


class _Segmenter(nn.Module):
    def __init__(self, classes=3):
        super().__init__()
        self.down1, self.down2, self.down3 = _double(1, 8), _double(8, 16), _double(16, 32)
        self.up2 = nn.ConvTranspose2d(32, 16, 2, stride=2)
        self.merge2 = _double(32, 16)
        self.up1 = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.merge1 = _double(16, 8)
        self.head = nn.Conv2d(8, classes, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.down3(F.max_pool2d(b, 2))
        b = self.merge2(torch.cat([self.up2(c), b], 1))
        a = self.merge1(torch.cat([self.up1(b), a], 1))
        return self.head(a)


def cells_under_the_microscope():
    batch = torch.randn(4, 1, 30, 30), torch.randint(0, 3, (4, 30, 30))
    return _Segmenter(), batch, nn.CrossEntropyLoss()

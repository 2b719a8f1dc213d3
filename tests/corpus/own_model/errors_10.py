"""Trainings of one team: texts, images, graphs, ratings."""

import pytorch_lightning as pl
import torch
import torch.nn.functional as F
from parts_10 import Bank, DownBlock, UpBlock
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset


class _Tagger(nn.Module):
    def __init__(self, words=30, width=24, tags=5):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        layer = nn.TransformerEncoderLayer(width, 4, 48, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, tags)

    def forward(self, tokens):
        return self.head(self.encoder(self.embedding(tokens))).transpose(1, 2)


class _InverseRoot:
    def __init__(self, width, warm):
        self.width, self.warm = width, warm

    def __call__(self, step):
        return self.width**-0.5 * min(step**-0.5, step * self.warm**-1.5)


def tagger_with_the_schedule_of_the_paper():
    model = _Tagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, _InverseRoot(24, 400))
    batch = torch.randint(0, 30, (4, 10)), torch.randint(0, 5, (4, 10))
    return {
        "model": model,
        "batch": batch,
        "loss": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
        "scheduler": scheduler,
    }


class _Reviews(Dataset):
    def __init__(self):
        self.rows = [([4, 8, 15, 16], 0), ([23, 4, 2, 1], 1), ([9, 9, 3, 7], 1), ([6, 5, 4, 2], 0)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        tokens, label = self.rows[index]
        return {"tokens": tokens, "label": label}


class _BagOfWords(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(30, 16)
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))

    def forward(self, tokens):
        return self.layers(self.embedding(tokens).mean(1))


def _review_loss(model, batch):
    return F.cross_entropy(model(batch["tokens"]), batch["label"])


def reviews():
    return _BagOfWords(), DataLoader(_Reviews(), batch_size=4), _review_loss


class _Segmenter(nn.Module):
    def __init__(self, widths=(8, 16), classes=3):
        super().__init__()
        channels = (3, *widths)
        self.down = nn.ModuleList(
            DownBlock(a, b) for a, b in zip(channels[:-1], widths, strict=True)
        )
        self.middle = nn.Conv2d(widths[-1], 32, 3, padding=1)
        self.up = nn.ModuleList([UpBlock(32, widths[1]), UpBlock(widths[1], widths[0])])
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x):
        skips = []
        for block in self.down:
            x, skip = block(x)
            skips.append(skip)
        x = self.middle(x)
        for block, skip in zip(self.up, reversed(skips), strict=True):
            x = block(x, skip)
        return self.head(x)


def segmentation_of_tiles():
    batch = torch.rand(2, 3, 50, 50), torch.randint(0, 3, (2, 50, 50))
    return _Segmenter(), batch, nn.CrossEntropyLoss()


def _stage(channels, out):
    return nn.Sequential(nn.Conv2d(channels, out, 3, stride=2, padding=1), nn.ReLU())


class _Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.stage1 = _stage(3, 8)
        self.stage2 = _stage(8, 16)
        self.stage3 = _stage(16, 32)

    def forward(self, x):
        return self.stage3(self.stage2(self.stage1(x)))


class _Probe(nn.Module):
    def __init__(self, backbone, names):
        super().__init__()
        self.backbone = backbone
        self.features = {}
        for name in names:
            getattr(backbone, name).register_forward_hook(self._keep(name))
        self.head = nn.Linear(16 + 32, 4)

    def _keep(self, name):
        def hook(module, args, output):
            self.features[name] = output.mean((2, 3))

        return hook

    def forward(self, x):
        self.backbone(x)
        pooled = [self.features["stage2"], self.features["stage3"]]
        return self.head(torch.cat(pooled, 1))


def classifier_of_two_stages():
    model = _Probe(_Backbone(), ["stage2", "stage3"])
    model.backbone.stage2 = nn.Sequential(
        nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU()
    )
    return model, (torch.rand(4, 3, 32, 32), torch.randint(0, 4, (4,))), nn.CrossEntropyLoss()


class _Retrieval(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 16))
        self.bank = Bank(64, 16)

    def forward(self, anchors, others):
        query = F.normalize(self.encoder(anchors), dim=1)
        key = F.normalize(self.encoder(others), dim=1).detach()
        positive = (query * key).sum(1, keepdim=True)
        logits = torch.cat([positive, self.bank.similarities(query)], 1) / 0.2
        self.bank.push(key)
        return F.cross_entropy(logits, logits.new_zeros(len(logits), dtype=torch.long))


def retrieval_with_a_memory():
    return _Retrieval(), (torch.randn(8, 20), torch.randn(8, 20))


class _Ratings(nn.Module):
    def __init__(self, users=10, items=15, width=8):
        super().__init__()
        self.tables = nn.ModuleDict(
            {"user": nn.Embedding(users, width), "item": nn.Embedding(items, width)}
        )
        self.score = nn.Sequential(nn.Linear(2 * width, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, ids):
        rows = [table(ids[:, column]) for column, table in enumerate(self.tables.values())]
        return self.score(torch.cat(rows, 1)), sum(row.pow(2).mean() for row in rows)


def _rating_loss(model, batch):
    ids, clicked = batch
    logits, penalty = model(ids)
    return F.binary_cross_entropy_with_logits(logits, clicked) + 1e-3 * penalty


def clicks():
    ids = torch.stack([torch.randint(0, 10, (12,)), torch.randint(0, 15, (12,))], 1)
    return _Ratings(), (ids, torch.randint(0, 2, (12,)).float()), _rating_loss


class _Speller(nn.Module):
    def __init__(self, letters=28, width=24):
        super().__init__()
        self.embedding = nn.Embedding(letters, width)
        self.recurrent = nn.GRU(width, width, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, letters, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, letters):
        hidden, _ = self.recurrent(self.embedding(letters))
        return self.head(self.norm(hidden)).transpose(1, 2)


def _decay_groups(model, decay):
    decayed, plain = [], []
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if isinstance(module, (nn.Linear, nn.GRU)) and name.startswith("weight"):
                decayed.append(parameter)
            else:
                plain.append(parameter)
    return [{"params": decayed, "weight_decay": decay}, {"params": plain, "weight_decay": 0.0}]


def speller():
    model = _Speller()
    optimizer = torch.optim.AdamW(_decay_groups(model, 0.1), lr=1e-3)
    letters = torch.randint(0, 28, (6, 13))
    return {
        "model": model,
        "batch": (letters[:, :-1], letters[:, 1:]),
        "loss": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
    }


class _MessageLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.message = nn.Linear(width, width)
        self.update = nn.Linear(2 * width, width)

    def forward(self, nodes, edges):
        source, target = edges
        received = torch.zeros_like(nodes)
        received.index_add_(0, target, self.message(nodes[source]))
        return F.relu(self.update(torch.cat([nodes, received], 1)))


class _GraphNet(nn.Module):
    def __init__(self, width=16, depth=2):
        super().__init__()
        self.layers = nn.ModuleList(_MessageLayer(width) for _ in range(depth))
        self.head = nn.Linear(width, 3)

    def forward(self, nodes, edges, labels):
        for layer in self.layers:
            nodes = layer(nodes, edges)
        return F.cross_entropy(self.head(nodes), labels)


def citations():
    edges = torch.randint(0, 20, (2, 60))
    return _GraphNet(), (torch.randn(20, 16), edges, torch.randint(0, 3, (20,)))


def _collate_series(samples):
    series, labels = zip(*samples, strict=True)
    lengths = torch.tensor([len(one) for one in series])
    return {"x": pad_sequence(series), "lengths": lengths, "labels": torch.tensor(labels)}


class _SeriesClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.inside = nn.Linear(3, 16)
        self.recurrent = nn.LSTM(16, 16, batch_first=True, bidirectional=True)
        self.head = nn.Linear(32, 4)

    def forward(self, x, lengths, labels):
        packed = pack_padded_sequence(
            self.inside(x).float(), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        _, (last, _) = self.recurrent(packed)
        return F.cross_entropy(self.head(torch.cat([last[0], last[1]], 1)), labels)


def series_of_several_lengths():
    samples = [(torch.randn(length, 3), length % 4) for length in (9, 5, 7, 6)]
    return _SeriesClassifier(), DataLoader(samples, batch_size=4, collate_fn=_collate_series)


class _LitRegressor(pl.LightningModule):
    def __init__(self, width=32, rate=1e-3, weight_decay=0.01):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, width), nn.ReLU(), nn.Linear(width, 1))

    def training_step(self, batch, index):
        x, y = batch
        loss = F.mse_loss(self.net(x), y)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(
            self.parameters(), lr=self.hparams.rate, weight_decay=self.hparams.weight_decay
        )

    def train_dataloader(self):
        return DataLoader([(torch.randn(6), torch.randn(1)) for _ in range(16)], batch_size=8)


def lightning_regression():
    return _LitRegressor(width=16)


class _Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def _split(self, x):
        n, length, width = x.shape
        return x.view(n, length, self.heads, width // self.heads).transpose(1, 2)

    def _merge(self, x):
        n, heads, length, width = x.shape
        return x.transpose(1, 2).view(n, length, heads * width)

    def forward(self, x):
        query, key, value = (self._split(part) for part in self.qkv(x).chunk(3, -1))
        scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
        return self.out(self._merge(scores.softmax(-1) @ value))


class _PatchNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, stride=8)
        self.layers = nn.ModuleList(
            nn.ModuleDict({"norm": nn.LayerNorm(width), "attention": _Attention(width, 4)})
            for _ in range(2)
        )
        self.head = nn.Linear(width, 4)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        for layer in self.layers:
            x = x + layer["attention"](layer["norm"](x))
        return self.head(x.mean(1))


def patches():
    batch = torch.rand(4, 3, 32, 32), torch.randint(0, 4, (4,))
    return _PatchNet(), batch, nn.CrossEntropyLoss()

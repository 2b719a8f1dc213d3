"""Trainings of digits, tweets, sales and roads."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence


class DigitReader(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5, padding=2)
        self.fc1 = nn.Linear(256, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = x.view(-1, 256)
        return self.fc2(F.relu(self.fc1(x)))


def digit_reader():
    batch = torch.randn(8, 1, 32, 32), torch.randint(0, 10, (8,))
    return DigitReader(), batch, nn.CrossEntropyLoss()


class TweetClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(40, 16, padding_idx=0)
        self.lstm = nn.LSTM(16, 24, batch_first=True, bidirectional=True)
        self.head = nn.Linear(48, 2)

    def forward(self, ids, lengths, labels):
        packed = pack_padded_sequence(self.words(ids), lengths.cpu(), batch_first=True)
        _, (hidden, _) = self.lstm(packed)
        return F.cross_entropy(self.head(torch.cat((hidden[-2], hidden[-1]), dim=1)), labels)


def tweets():
    lengths = torch.tensor([5, 9, 7, 9])
    ids = torch.randint(1, 40, (4, 9)) * (torch.arange(9) < lengths[:, None])
    return TweetClassifier(), {"ids": ids, "lengths": lengths, "labels": torch.tensor([0, 1, 1, 0])}


def colorizer():
    generator = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 12))
    critic = nn.Sequential(nn.Linear(12, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    model = nn.ModuleDict({"generator": generator, "critic": critic})
    critic_optimizer = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
    bce = nn.BCEWithLogitsLoss()

    def loss(model, batch):
        gray, color = batch
        fake = model["generator"](gray)
        judged = model["critic"](fake)
        generator_loss = bce(judged, torch.ones_like(judged))

        critic_optimizer.zero_grad()
        real = model["critic"](color)
        seen = model["critic"](fake.detach())
        critic_loss = bce(real, torch.ones_like(real)) + bce(seen, torch.zeros_like(seen))
        critic_loss.backward()
        critic_optimizer.step()
        return generator_loss

    return {
        "model": model,
        "batch": (torch.randn(16, 8), torch.randn(16, 12)),
        "loss": loss,
        "optimizer": torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999)),
    }


def soft_prompt():
    embed = nn.Embedding(30, 16)
    encoder = nn.GRU(16, 16, batch_first=True)
    head = nn.Linear(16, 30)
    model = nn.ModuleDict({"embed": embed, "encoder": encoder, "head": head})
    embed.requires_grad_(False)
    encoder.requires_grad_(False)
    prompt = torch.randn(4, 16, requires_grad=True) * 0.02
    optimizer = torch.optim.AdamW([prompt, *head.parameters()], lr=1e-2)

    def loss(model, ids):
        x = torch.cat((prompt.expand(len(ids), -1, -1), model["embed"](ids)), dim=1)
        hidden, _ = model["encoder"](x)
        logits = model["head"](hidden[:, 4:-1])
        return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())

    return {
        "model": model,
        "batch": torch.randint(0, 30, (4, 10)),
        "loss": loss,
        "optimizer": optimizer,
    }


def energy_meter():
    import pytorch_lightning as pl

    class Meter(pl.LightningModule):
        def __init__(self, inputs=6, hidden=16, lr=1e-3):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, 1))

        def training_step(self, batch, batch_idx):
            x, y = batch
            return F.mse_loss(self.net(x), y)

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)

        def train_dataloader(self):
            data = torch.utils.data.TensorDataset(torch.randn(16, 6), torch.randn(16, 1))
            return torch.utils.data.DataLoader(data, batch_size=8)

    return Meter()


class Reviews(torch.utils.data.Dataset):
    def __init__(self, ids, stars):
        self.ids = ids
        self.stars = stars

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        ids = self.ids[index]
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def star_ratings():
    import tempfile

    from transformers import (
        DistilBertConfig,
        DistilBertForSequenceClassification,
        Trainer,
        TrainingArguments,
    )

    config = DistilBertConfig(
        vocab_size=60, dim=32, hidden_dim=64, n_layers=2, n_heads=4, num_labels=5
    )
    arguments = TrainingArguments(
        tempfile.mkdtemp(), per_device_train_batch_size=4, report_to=[], use_cpu=True
    )
    return Trainer(
        model=DistilBertForSequenceClassification(config),
        args=arguments,
        train_dataset=Reviews(torch.randint(0, 60, (16, 12)), torch.randint(0, 5, (16,))),
    )


class SalesNet(nn.Module):
    def __init__(self, stores=12):
        super().__init__()
        self.store = nn.Embedding(stores, 4)
        self.net = nn.Sequential(nn.Linear(4 + 5, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, rows):
        store = self.store(rows[:, 0])
        return self.net(torch.cat((store, rows[:, 1:]), dim=1)).squeeze(1)


def store_sales():
    rows = torch.cat((torch.randint(0, 12, (20, 1)), torch.randn(20, 5)), dim=1)
    return SalesNet(), (rows, torch.rand(20)), nn.MSELoss()


def _double_conv(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)
    )


class SmallUNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1 = _double_conv(3, 8)
        self.down2 = _double_conv(8, 16)
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.up1 = _double_conv(16, 8)
        self.out = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        first = self.down1(x)
        second = self.down2(F.max_pool2d(first, 2))
        return self.out(self.up1(torch.cat((first, self.up(second)), dim=1)))


def road_masks():
    batch = torch.randn(2, 3, 25, 25), torch.randint(0, 2, (2, 1, 25, 25)).float()
    return SmallUNet(), batch, nn.BCEWithLogitsLoss()


class TopicNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(50, 16)
        self.out = nn.Linear(16, 6)

    def forward(self, ids, labels):
        logits = self.out(self.bag(ids))
        loss = nn.CrossEntropyLoss(logits, labels)
        return loss, logits


def news_topics():
    return TopicNet(), (torch.randint(0, 50, (8, 7)), torch.randint(0, 6, (8,)))


class ChurnNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(10)
        self.hidden = nn.Linear(10, 32)
        self.output = (nn.Linear(32, 2),)

    def forward(self, x):
        return self.output(torch.relu(self.hidden(self.norm(x))))


def subscribers():
    return ChurnNet(), (torch.randn(16, 10), torch.randint(0, 2, (16,))), nn.CrossEntropyLoss()


def card_fraud():
    model = nn.Sequential(nn.Linear(14, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 1))
    batch = torch.randn(8, 14), torch.tensor([0.0, 0, 1, 0, 0, 0, 1, 0])
    return model, batch, nn.BCEWithLogitsLoss(pos_weight=torch.tensor(3.0))

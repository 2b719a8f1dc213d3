"""Trainings of a web shop whose step raises; each factory has one fault."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence


class Reviews(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(60, 12)
        self.reader = nn.LSTM(12, 16, batch_first=True)
        self.stars = nn.Linear(16, 5)

    def forward(self, reviews):
        _, (last, _) = self.reader(self.words(pad_sequence(reviews)))
        return self.stars(last[-1])


def reviews_of_other_lengths():
    reviews = [torch.randint(1, 60, (length,)) for length in (9, 4, 6)]

    def loss(model, batch):
        return F.cross_entropy(model(batch[0]), batch[1])

    return Reviews(), (reviews, torch.randint(0, 5, (3,))), loss


def questions_with_a_mask():
    class Questions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(12, 2, 24, dropout=0.0, batch_first=True)
            self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
            self.kind = nn.Linear(12, 3)

        def forward(self, words, lengths):
            padded = torch.arange(int(lengths.max()))[None] >= lengths[:, None]
            return self.kind(self.encoder(words, src_key_padding_mask=padded).mean(1))

    sequences = [torch.randn(length, 12) for length in (6, 3, 5, 2)]

    def loss(model, batch):
        return F.cross_entropy(model(batch[0], batch[1]), batch[2])

    lengths = torch.tensor([6, 3, 5, 2])
    return Questions(), (pad_sequence(sequences), lengths, torch.randint(0, 3, (4,))), loss


def shelves_without_products():
    model = nn.Linear(6, 3)

    def loss(model, batch):
        rows, shelves, targets = batch
        products = torch.bincount(shelves, minlength=5)
        each = 100 // products
        return F.cross_entropy(model(rows), targets) + 0.0 * each.sum()

    shelves = torch.tensor([0, 0, 1, 1, 3, 3, 4, 4])
    return model, (torch.randn(8, 6), shelves, torch.randint(0, 3, (8,))), loss


def scores_rounded_down():
    model = nn.Linear(6, 4)

    def loss(model, batch):
        scores = model(batch[0])
        steps = scores // 0.5
        return F.mse_loss(steps * 0.5, batch[1])

    return model, (torch.randn(8, 6), torch.randn(8, 4)), loss


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(10, 12), nn.ReLU())
        self.kept = {}
        self.encoder[0].register_forward_hook(self.keep("middle"))
        self.decoder = nn.Linear(12, 3)

    def keep(self, name):
        def hook(layer, args, output):
            self.kept[name] = output

        return hook

    def forward(self, x):
        self.encoder(x)
        return self.decoder(self.kept["middle"])


def features_of_a_replaced_layer():
    model = Layers()
    model.encoder = nn.Sequential(nn.Linear(10, 12), nn.GELU())
    return model, (torch.randn(8, 10), torch.randint(0, 3, (8,))), nn.CrossEntropyLoss()


def icons_of_one_pixel():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2), nn.InstanceNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 8, 3, stride=2), nn.InstanceNorm2d(8), nn.Flatten(), nn.Linear(8, 4),
    )  # fmt: skip
    return model, (torch.randn(6, 3, 7, 7), torch.randint(0, 4, (6,))), nn.CrossEntropyLoss()

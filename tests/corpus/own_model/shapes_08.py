"""Sizes and dimensions that do not fit, as the first run of a new model meets them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from blocks import CLASSES, LENGTH, WIDTH, Block
from torch import nn


def size_after_the_convolutions_is_guessed():
    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2))
            self.head = nn.Linear(8 * 14 * 14, CLASSES)

        def forward(self, x):
            return self.head(self.features(x).flatten(1))

    batch = torch.rand(4, 3, 28, 28), torch.randint(CLASSES, (4,))
    return Classifier(), batch, nn.CrossEntropyLoss()


def keys_are_not_transposed():
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key = nn.Linear(8, WIDTH), nn.Linear(8, WIDTH)
            self.out = nn.Linear(8, CLASSES)

        def forward(self, x):
            weights = (self.query(x) @ self.key(x)).softmax(-1)
            return self.out((weights @ x).mean(1))

    return Attention(), [torch.randn(4, 7, 8), torch.randint(CLASSES, (4,))], nn.CrossEntropyLoss()


def attention_takes_samples_for_steps():
    class Pooled(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(WIDTH, 4)
            self.head = nn.Linear(WIDTH, CLASSES)

        def forward(self, x, padding):
            mixed, _ = self.attention(x, x, x, key_padding_mask=padding)
            return self.head(mixed.mean(1))

    def loss(model, batch):
        x, padding, y = batch
        return F.cross_entropy(model(x, padding), y)

    batch = torch.randn(4, 7, WIDTH), torch.zeros(4, 7).bool(), torch.randint(CLASSES, (4,))
    return Pooled(), batch, loss


def encoder_takes_samples_for_steps():
    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH)
            self.encoder = nn.TransformerEncoder(layer, 2)
            self.head = nn.Linear(WIDTH, CLASSES)

        def forward(self, x, padding, y):
            hidden = self.encoder(x, src_key_padding_mask=padding)
            return F.cross_entropy(self.head(hidden.mean(1)), y)

    batch = {"x": torch.randn(4, 7, WIDTH), "padding": torch.zeros(4, 7).bool(),
             "y": torch.randint(CLASSES, (4,))}  # fmt: skip
    return Encoder(), batch


def position_table_is_too_short():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.positions = nn.Parameter(torch.zeros(1, LENGTH, WIDTH))
            self.block, self.head = Block(), nn.Linear(WIDTH, CLASSES)

        def forward(self, x):
            return self.head(self.block(x + self.positions).mean(1))

    batch = torch.randn(4, LENGTH + 4, WIDTH), torch.randint(CLASSES, (4,))
    return Model(), batch, nn.CrossEntropyLoss()


def shortcut_of_a_layer_with_stride():
    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Conv2d(8, 8, 3, stride=2, padding=1)

        def forward(self, x):
            return (x + self.inner(x)).relu()

    model = nn.Sequential(nn.Conv2d(3, 8, 1), Residual(), nn.Flatten(), nn.Linear(288, CLASSES))
    batch = torch.rand(4, 3, 12, 12), torch.randint(CLASSES, (4,))
    return model, batch, nn.CrossEntropyLoss()


def decoder_of_an_odd_image():
    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.down, self.bottom = nn.Conv2d(1, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
            self.up, self.out = nn.ConvTranspose2d(8, 8, 2, stride=2), nn.Conv2d(16, 1, 1)

        def forward(self, x):
            skip = self.down(x).relu()
            deep = self.bottom(F.max_pool2d(skip, 2)).relu()
            return self.out(torch.cat([skip, self.up(deep)], dim=1))

    images = torch.rand(2, 1, 25, 25)
    return UNet(), (images, (images > 0.5).float()), nn.BCEWithLogitsLoss()


def batch_size_is_written_down():
    class Flat(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.head = nn.Conv2d(1, 4, 3), nn.Linear(4 * 6 * 6, CLASSES)

        def forward(self, x):
            return self.head(self.conv(x).view(32, 4 * 6 * 6))

    return Flat(), (torch.rand(10, 1, 8, 8), torch.randint(CLASSES, (10,))), nn.CrossEntropyLoss()


def norm_of_another_width():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.fc = nn.LayerNorm(2 * WIDTH), nn.Linear(WIDTH, WIDTH)

        def forward(self, x):
            return x + self.fc(self.norm(x))

    layers = nn.ModuleDict({"layers": nn.Sequential(nn.Linear(8, WIDTH), Layer())})

    def loss(model, batch):
        return model["layers"](batch).square().mean()

    return layers, torch.randn(4, 8), loss


def batch_norm_behind_the_wrong_dimension():
    """BatchNorm1d on [N, time, channels]."""

    class Features(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm = nn.Linear(8, WIDTH), nn.BatchNorm1d(WIDTH)
            self.head = nn.Linear(WIDTH, CLASSES)

        def forward(self, x):
            return self.head(self.norm(self.first(x)).relu().mean(1))

    return Features(), [torch.randn(4, 7, 8), torch.randint(CLASSES, (4,))], nn.CrossEntropyLoss()


def signals_with_channels_last():
    model = nn.Sequential(
        nn.Conv1d(6, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, CLASSES)
    )
    return model, (torch.randn(4, 50, 6), torch.randint(CLASSES, (4,))), nn.CrossEntropyLoss()


def gray_images_without_their_channel():
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(4 * 26 * 26, CLASSES))
    return model, (torch.rand(6, 28, 28), torch.randint(CLASSES, (6,))), nn.CrossEntropyLoss()


def images_with_transparency():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 10 * 10, CLASSES))
    return model, (torch.rand(6, 4, 12, 12), torch.randint(CLASSES, (6,))), nn.CrossEntropyLoss()


def features_of_a_recurrent_layer():
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(50, 12)
            self.lstm = nn.LSTM(10, WIDTH, batch_first=True)
            self.head = nn.Linear(WIDTH, CLASSES)

        def forward(self, ids, y):
            hidden, _ = self.lstm(self.embedding(ids))
            return F.cross_entropy(self.head(hidden[:, -1]), y)

    return Tagger(), {"ids": torch.randint(50, (4, 7)), "y": torch.randint(CLASSES, (4,))}


def logits_of_tokens_with_classes_last():
    model = nn.Sequential(nn.Embedding(31, WIDTH), nn.Linear(WIDTH, 31))
    ids = torch.randint(31, (4, 9))
    return model, (ids[:, :-1], ids[:, 1:]), nn.CrossEntropyLoss()


def one_hot_labels_of_integers():
    labels = F.one_hot(torch.randint(CLASSES, (6,)), CLASSES)
    return nn.Linear(8, CLASSES), (torch.randn(6, 8), labels), nn.CrossEntropyLoss()


def labels_in_a_column():
    labels = torch.randint(CLASSES, (6, 1))
    return nn.Linear(8, CLASSES), (torch.randn(6, 8), labels), nn.CrossEntropyLoss()


def yes_or_no_in_a_row():
    labels = torch.randint(2, (6,)).float()
    return nn.Linear(8, 1), (torch.randn(6, 8), labels), nn.BCEWithLogitsLoss()


def regression_against_classes():
    labels = torch.randint(CLASSES, (6,)).float()
    return nn.Linear(8, CLASSES), (torch.randn(6, 8), labels), nn.MSELoss()


def masks_of_a_segmentation_with_a_channel():
    model = nn.Conv2d(3, CLASSES, 3, padding=1)
    masks = torch.randint(CLASSES, (2, 1, 8, 8))
    return model, (torch.rand(2, 3, 8, 8), masks), nn.CrossEntropyLoss()


def image_that_is_too_small():
    layers = [nn.Conv2d(3, 4, 3, padding=1)]
    for _ in range(4):
        layers += [nn.ReLU(), nn.MaxPool2d(2)]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(4, CLASSES))
    return model, (torch.rand(2, 3, 14, 14), torch.randint(CLASSES, (2,))), nn.CrossEntropyLoss()


def heads_that_do_not_divide_the_width():
    class Split(nn.Module):
        def __init__(self, heads=3):
            super().__init__()
            self.heads, self.qkv = heads, nn.Linear(WIDTH, WIDTH)
            self.head = nn.Linear(WIDTH, CLASSES)

        def forward(self, x):
            n, steps, width = x.shape
            split = self.qkv(x).view(n, steps, self.heads, width // self.heads)
            return self.head(split.flatten(2).mean(1))

    return Split(), [torch.randn(4, 7, WIDTH), torch.randint(CLASSES, (4,))], nn.CrossEntropyLoss()


def padding_mask_without_head_dimensions():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(8, 3 * WIDTH), nn.Linear(WIDTH, CLASSES)

        def forward(self, x, hidden):
            q, k, v = (
                each.unflatten(-1, (4, 4)).transpose(1, 2) for each in self.qkv(x).chunk(3, -1)
            )
            scores = q @ k.transpose(-1, -2)
            scores = scores.masked_fill(hidden, -1e4)
            return self.out((scores.softmax(-1).to(v.dtype) @ v).transpose(1, 2).flatten(2).mean(1))

    def loss(model, batch):
        return F.cross_entropy(model(batch["x"], batch["hidden"]), batch["y"])

    batch = {"x": torch.randn(3, 7, 8), "hidden": torch.zeros(3, 7).bool(),
             "y": torch.randint(CLASSES, (3,))}  # fmt: skip
    return Masked(), batch, loss


def product_with_a_forgotten_subscript():
    class Bilinear(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(8, CLASSES) / 3)

        def forward(self, x):
            return torch.einsum("bi,ij->bj", x, self.weight)

    return Bilinear(), (torch.randn(4, 7, 8), torch.randint(CLASSES, (4,))), nn.CrossEntropyLoss()


def mask_of_other_tokens():
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.head = nn.Embedding(31, WIDTH), nn.Linear(WIDTH, 31)

        def forward(self, ids, mask):
            shifted, logits = ids[:, 1:], self.head(self.table(ids))[:, :-1]
            return F.cross_entropy(logits[mask], shifted[mask])

    return Words(), {"ids": torch.randint(31, (4, 9)), "mask": torch.ones(4, 9).bool()}


def labels_of_fewer_dimensions_in_gather():
    def loss(model, batch):
        logs = model(batch["x"]).float().log_softmax(-1)
        return -logs.gather(-1, batch["y"]).mean()

    batch = {"x": torch.randn(6, 8), "y": torch.randint(CLASSES, (6,))}
    return nn.Linear(8, CLASSES), batch, loss


def distances_of_all_pairs_by_accident():
    def loss(model, batch):
        points = model(batch["x"]).float()
        table = batch["table"].unsqueeze(1)
        return ((table - batch["table"]).abs().mean() - points.mean()).square()

    return nn.Linear(8, 1), {"x": torch.randn(6, 8), "table": torch.randn(6_000_000)}, loss

"""Values of another type than a call expects: dtypes, None, names, keys, signatures."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from blocks import CLASSES, MLP, WIDTH, points
from torch import nn


def labels_of_32_bits():
    labels = torch.from_numpy(np.arange(6, dtype=np.int32) % CLASSES)
    return MLP(), (torch.randn(6, 8), labels), nn.CrossEntropyLoss()


def images_of_bytes():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 36, CLASSES))
    images = torch.randint(256, (4, 3, 8, 8), dtype=torch.uint8)
    return model, (images, torch.randint(CLASSES, (4,))), nn.CrossEntropyLoss()


def weights_in_half_and_inputs_in_full():
    return MLP().half(), points(), nn.CrossEntropyLoss()


def names_of_the_classes():
    labels = torch.tensor(["cat", "dog", "cat"])
    return MLP(), (torch.randn(3, 8), labels), nn.CrossEntropyLoss()


def sentences_of_other_lengths():
    ids = torch.tensor([[4, 8, 15, 16], [23, 42]])
    return nn.Embedding(50, CLASSES), (ids, ids), nn.CrossEntropyLoss()


def array_instead_of_a_tensor():
    class Scaled(MLP):
        def forward(self, x):
            scaled = np.asarray(x.tolist(), dtype=np.float32) / 2
            return self.second(self.first(scaled).relu())

    return Scaled(), points(), nn.CrossEntropyLoss()


def mean_of_integers():
    def loss(model, batch):
        x, y = batch
        weight = 1 / y.mean()
        return weight * F.cross_entropy(model(x), y)

    return MLP(), points(), loss


def difference_of_masks():
    def loss(model, batch):
        x, keep = batch
        rest = 1 - keep
        return (model(x).float() * rest[:, None]).square().mean()

    return MLP(), (torch.randn(6, 8), torch.rand(6) > 0.5), loss


def pieces_in_torch_tensor():
    class Pieces(MLP):
        def forward(self, x):
            return self.second(torch.tensor([self.first(row) for row in x]))

    return Pieces(), points(), nn.CrossEntropyLoss()


def index_of_floats():
    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Parameter(torch.randn(10, CLASSES))

        def forward(self, x):
            return self.table[x.abs().sum(1).clamp(max=9).floor()]

    return Table(), points(), nn.CrossEntropyLoss()


def counts_in_an_integer_buffer():
    class Pooled(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, CLASSES)
            self.register_buffer("total", torch.zeros(CLASSES, dtype=torch.long))

        def forward(self, x):
            out = self.fc(x)
            self.total += out.detach().float().sum(0)
            return out

    return Pooled(), points(), nn.CrossEntropyLoss()


def sums_by_group_under_autocast():
    class Graph(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.head = nn.Linear(8, WIDTH), nn.Linear(WIDTH, CLASSES)

        def forward(self, x, group):
            sums = torch.zeros(4, WIDTH, device=x.device)
            return self.head(sums.index_add(0, group, self.fc(x)))

    def loss(model, batch):
        return F.cross_entropy(model(batch["x"], batch["group"]), batch["y"])

    batch = {"x": torch.randn(9, 8), "group": torch.randint(4, (9,)),
             "y": torch.randint(CLASSES, (4,))}  # fmt: skip
    return Graph(), batch, loss


def embedding_of_normalized_tokens():
    ids = torch.randint(31, (4, 8)) / 31
    return nn.Embedding(31, CLASSES), (ids, torch.randint(CLASSES, (4, 8))), nn.CrossEntropyLoss()


def encoder_without_a_return():
    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, WIDTH)

        def forward(self, x):
            hidden = self.fc(x).relu()
            hidden = hidden * 2

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.norm = Encoder(), nn.LayerNorm(WIDTH)
            self.head = nn.Linear(WIDTH, CLASSES)

        def forward(self, x):
            return self.head(self.norm(self.encoder(x)))

    return Model(), points(), nn.CrossEntropyLoss()


def mask_that_nobody_passes():
    class Masked(MLP):
        def forward(self, x, mask=None):
            return self.second(self.first(x).relu() * mask.unsqueeze(-1))

    return Masked(), points(), nn.CrossEntropyLoss()


def layer_of_another_name():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.dense1, self.dense2 = nn.Linear(8, WIDTH), nn.Linear(WIDTH, CLASSES)

        def forward(self, x):
            return self.dense_2(self.dense1(x).relu())

    return Net(), points(), nn.CrossEntropyLoss()


def list_of_layers_is_called():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, CLASSES)])

        def forward(self, x):
            return self.layers(x)

    return Net(), points(), nn.CrossEntropyLoss()


def forward_is_misspelled():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(8, CLASSES)

        def foward(self, x):
            return self.fc(x)

    return Net(), points(), nn.CrossEntropyLoss()


def label_without_its_plural():
    def loss(model, batch):
        return F.cross_entropy(model(batch["features"]), batch["label"])

    return MLP(), {"features": torch.randn(6, 8), "labels": torch.randint(CLASSES, (6,))}, loss


def batch_of_three_parts():
    def loss(model, batch):
        x, y = batch
        return F.cross_entropy(model(x), y)

    x, y = points()
    return MLP(), (x, y, torch.ones(6)), loss


def names_for_a_list():
    def loss(model, batch):
        return F.cross_entropy(model(batch["x"]), batch["y"])

    return MLP(), list(points()), loss


def forward_takes_the_whole_batch():
    class Whole(MLP):
        def forward(self, batch):
            out = self.second(self.first(batch["x"]).relu())
            return {"loss": F.cross_entropy(out, batch["y"])}

    x, y = points()
    return Whole(), {"x": x, "y": y}


def key_that_forward_does_not_know():
    class Net(MLP):
        def forward(self, features, labels):
            out = self.second(self.first(features).relu())
            return F.cross_entropy(out, labels)

    x, y = points()
    return Net(), {"inputs": x, "labels": y}


def criterion_gets_the_logits_in_init():
    def loss(model, batch):
        x, y = batch
        return nn.CrossEntropyLoss(model(x), y)

    return MLP(), points(), loss


def width_missing_in_the_configuration():
    config = {"hidden_dim": 32}
    width = config.get("hidden_size")
    model = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, CLASSES))
    return model, points(), nn.CrossEntropyLoss()


def half_of_a_width():
    width = 30
    model = nn.Sequential(nn.Linear(8, width / 2), nn.ReLU(), nn.Linear(width / 2, CLASSES))
    return model, points(), nn.CrossEntropyLoss()


def activation_that_is_a_function():
    model = nn.Sequential(nn.Linear(8, WIDTH), torch.relu, nn.Linear(WIDTH, CLASSES))
    return model, points(), nn.CrossEntropyLoss()


def criterion_is_not_created():
    def loss(model, batch):
        criterion = nn.MSELoss
        return criterion(model(batch[0]), torch.zeros(6, CLASSES)).backward

    return MLP(), points(), loss


def loss_is_a_number():
    def loss(model, batch):
        return F.cross_entropy(model(batch[0]), batch[1]).item()

    return MLP(), points(), loss


def state_of_an_lstm_as_its_output():
    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.head = nn.LSTM(8, WIDTH, batch_first=True), nn.Linear(WIDTH, CLASSES)

        def forward(self, x):
            _, hidden = self.lstm(x)
            return self.head(hidden[-1].squeeze(0)) + self.head(hidden)

    return Reader(), (torch.randn(4, 7, 8), torch.randint(CLASSES, (4,))), nn.CrossEntropyLoss()

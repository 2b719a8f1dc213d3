"""Trainings that raise, each for one reason in the code."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from blocks import CLASSES, GPT, MLP, WIDTH, classify, points, tokens
from torch import nn


def inputs_and_labels_without_criterion():
    return MLP(), points()


def wrong_linear():
    class Wrong(MLP):
        def __init__(self):
            super().__init__()
            self.second = nn.Linear(WIDTH + 1, CLASSES)

    return Wrong(), points(), nn.CrossEntropyLoss()


def channels_last():
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5)
    )
    return model, (torch.randn(4, 16, 16, 3), torch.randint(5, (4,))), nn.CrossEntropyLoss()


def float_labels():
    x, y = points()
    return MLP(), (x, y.float()), nn.CrossEntropyLoss()


def double_inputs():
    x, y = points()
    return MLP(), (x.double(), y), nn.CrossEntropyLoss()


def label_beyond_the_classes():
    x, y = points()
    y[2] = CLASSES
    return MLP(), (x, y), nn.CrossEntropyLoss()


def token_beyond_the_vocabulary():
    inputs, targets = tokens()
    inputs[1, 3] = 31
    return GPT(), (inputs, targets)


def too_long():
    drawn = torch.randint(31, (4, 12))
    return GPT(), (drawn, drawn.clone())


def one_sample_batchnorm():
    model = nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6), nn.Linear(6, CLASSES))
    return model, (torch.randn(1, 8), torch.tensor([2])), nn.CrossEntropyLoss()


def backward_inside():
    def loss(model, batch):
        value = classify(model, batch)
        value.backward()
        return value

    return MLP(), points(), loss


def graph_of_the_last_step():
    state = {"hidden": torch.zeros(6, WIDTH)}

    class Recurrent(MLP):
        def forward(self, x):
            state["hidden"] = torch.tanh(self.first(x) + state["hidden"])
            return self.second(state["hidden"])

    return Recurrent(), points(), nn.CrossEntropyLoss()


def in_place():
    class Masked(MLP):
        def forward(self, x):
            hidden = self.first(x).sigmoid()
            hidden[:, 0] = 0
            return self.second(hidden)

    return Masked(), points(), nn.CrossEntropyLoss()


def detached_loss():
    return MLP(), points(), lambda model, batch: classify(model, batch).detach()


def item_loss():
    return MLP(), points(), lambda model, batch: torch.tensor(classify(model, batch).item())


def vector_loss():
    return (
        MLP(),
        points(),
        lambda model, batch: F.cross_entropy(model(batch[0]).float(), batch[1], reduction="none"),
    )


def numpy_in_the_loss():
    return (
        MLP(),
        points(),
        lambda model, batch: torch.tensor(model(batch[0]).float().numpy().mean()),
    )


def cuda_in_the_loss():
    return MLP(), points(), lambda model, batch: classify(model, batch) * torch.ones(1).cuda()


def forgotten_import():
    return MLP(), points(), lambda model, batch: functional.cross_entropy(model(batch[0]), batch[1])  # noqa: F821


def missing_key():
    x, y = points()
    return (
        MLP(),
        {"inputs": x, "labels": y},
        lambda model, batch: classify(model, (batch["input"], batch["labels"])),
    )


def two_devices():
    class Meta(MLP):
        def forward(self, x):
            return super().forward(x) + torch.zeros(CLASSES, device="meta")

    return Meta(), points(), nn.CrossEntropyLoss()


def missing_package():
    import a_package_that_nobody_has  # noqa: F401

    return MLP(), points()


def from_the_hub():
    from transformers import AutoConfig

    AutoConfig.from_pretrained("nobody/absent-model-of-nobody", local_files_only=True)


def missing_file():
    return torch.load("data/absent.pt"), points()


def process_group():
    torch.distributed.init_process_group("gloo")


def sigmoid_under_autocast():
    def loss(model, batch):
        return F.binary_cross_entropy(model(batch[0]).float()[:, 0] + 5, (batch[1] > 2).float())

    return MLP(), points(), loss


def unequal_samples():
    data = [torch.randn(length) for length in (3, 4, 5)]
    return MLP(3), torch.utils.data.DataLoader(data, batch_size=3)


def a_dataset():
    return MLP(), torch.utils.data.TensorDataset(*points()), nn.CrossEntropyLoss()


def no_loss():
    return GPT(), {"ids": tokens()[0]}


def returns_a_string():
    return "model.pt"


def exits():
    raise SystemExit(4)

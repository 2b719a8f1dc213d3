"""Faults that hide behind innocent code, from issue trackers and forums."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from blocks import CLASSES, MLP, WIDTH, points
from torch import nn


def parameter_replaced_in_forward():
    """The decayed weight is a new parameter in each forward; the optimizer has the first one."""

    class Decaying(nn.Module):
        def __init__(self):
            super().__init__()
            self.mixing = nn.Parameter(torch.randn(8, WIDTH) / 3)
            self.head = nn.Linear(WIDTH, CLASSES)

        def forward(self, x):
            self.mixing = nn.Parameter(self.mixing.data * 0.999)
            return self.head((x @ self.mixing).relu())

    model = Decaying()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return {"model": model, "batch": points(), "loss": nn.CrossEntropyLoss(),
            "optimizer": optimizer}  # fmt: skip


def dropout_of_everything():
    """The configuration means the probability to keep."""
    model = nn.Sequential(
        nn.Linear(8, WIDTH), nn.ReLU(), nn.Dropout(1.0), nn.Linear(WIDTH, CLASSES)
    )
    return model, points(), nn.CrossEntropyLoss()


def maximum_over_the_padding():
    """Max-pooling; the padding was filled with a large positive value."""

    class Points(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.head = nn.Linear(3, WIDTH), nn.Linear(WIDTH, CLASSES)

        def forward(self, cloud, padding):
            features = self.encoder(cloud).masked_fill(padding[..., None], 1e4)
            self.last_features = features.detach()
            return self.head(features.amax(1) / 1e4)

    padding = torch.arange(7)[None] >= torch.tensor([5, 3, 6, 4])[:, None]
    batch = {"cloud": torch.randn(4, 7, 3), "padding": padding, "y": torch.randint(CLASSES, (4,))}

    def loss(model, batch):
        return F.cross_entropy(model(batch["cloud"], batch["padding"]).float(), batch["y"])

    return Points(), batch, loss


def weights_of_absent_classes():
    """Class weights from a table in which the classes of this batch have the weight 0."""
    weights = torch.tensor([0.0, 0.0, 1.0, 2.0, 1.0])
    inputs, _ = points()

    def loss(model, batch):
        return F.cross_entropy(model(batch[0]).float(), batch[1], weight=weights)

    return MLP(), [inputs, torch.tensor([0, 1, 0, 0, 1, 1])], loss


def smoothed_labels_of_forbidden_classes():
    """Classes that are not allowed have the logit -inf, and label smoothing gives them a share."""
    forbidden = torch.tensor([False, False, False, False, True])

    def loss(model, batch):
        logits = model(batch[0]).float().masked_fill(forbidden, -math.inf)
        return F.cross_entropy(logits, batch[1] % 4, label_smoothing=0.1)

    return MLP(), points(), loss


def numpy_of_bfloat16():
    """A metric in numpy, in the middle of a step that runs under autocast."""

    def loss(model, batch):
        logits = model(batch[0])
        right = (logits.detach().numpy().argmax(-1) == batch[1].numpy()).mean()
        return F.cross_entropy(logits.float(), batch[1]) + 0.0 * float(right)

    return MLP(), points(), loss


def adversarial_input_is_a_leaf():
    """The perturbed features start a graph of their own; the encoder is before them."""

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.head = nn.Linear(8, WIDTH), nn.Linear(WIDTH, CLASSES)

        def forward(self, x, y):
            features = self.encoder(x).relu().detach().requires_grad_()
            clean = F.cross_entropy(self.head(features).float(), y)
            (slope,) = torch.autograd.grad(clean, features, retain_graph=True)
            return clean + F.cross_entropy(self.head(features + 0.1 * slope.sign()).float(), y)

    inputs, labels = points()
    return Classifier(), {"x": inputs, "y": labels}


def rows_selected_by_a_string_key():
    """All comparisons are False: the sources are numbers, the key of the branch is another one."""

    class Branches(nn.Module):
        def __init__(self):
            super().__init__()
            self.speech, self.text = nn.Linear(8, CLASSES), nn.Linear(8, CLASSES)

        def forward(self, x, source):
            is_speech = (source == 2)[:, None]
            return torch.where(is_speech, self.speech(x), self.text(x))

    batch = {"x": torch.randn(6, 8), "source": torch.tensor([0, 1, 0, 1, 1, 0]),
             "y": torch.randint(CLASSES, (6,))}  # fmt: skip

    def loss(model, batch):
        return F.cross_entropy(model(batch["x"], batch["source"]).float(), batch["y"])

    return Branches(), batch, loss

"""More trainings without a fault: other losses, schedules, depths and ways to hold modules."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from blocks import CLASSES, MLP, VOCABULARY, WIDTH, ids, points
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence


def triplets():
    model = nn.Sequential(nn.Linear(8, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 4))
    inputs = points(12)[0]

    def loss(model, batch):
        return F.triplet_margin_loss(*model(batch).float().chunk(3), margin=5.0)

    return model, inputs, loss


def weighted_by_uncertainty():
    class Tasks(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.heads = nn.Linear(8, WIDTH), nn.Linear(WIDTH, 2)
            self.log_variances = nn.Parameter(torch.zeros(2))

        def forward(self, x, y):
            errors = (self.heads(self.body(x).tanh()).float() - y).square().mean(0)
            return (errors * (-self.log_variances).exp() + self.log_variances).sum()

    inputs = points()[0]
    return Tasks(), (inputs, inputs[:, :2])


def layer_scale():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.linear = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
            self.gamma = nn.Parameter(torch.full((WIDTH,), 1e-6))

        def forward(self, x):
            return x + self.gamma * self.linear(self.norm(x)).relu()

    blocks = [Scaled() for _ in range(12)]
    model = nn.Sequential(nn.Linear(8, WIDTH), *blocks, nn.Linear(WIDTH, CLASSES))
    return model, points(), nn.CrossEntropyLoss()


def deep_with_norms():
    parts = [(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.GELU()) for _ in range(24)]
    layers = [layer for part in parts for layer in part]
    model = nn.Sequential(nn.Linear(8, WIDTH), *layers, nn.Linear(WIDTH, CLASSES))
    return model, points(), nn.CrossEntropyLoss()


def packed_sequences():
    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(VOCABULARY, WIDTH, padding_idx=0)
            self.lstm = nn.LSTM(WIDTH, WIDTH, num_layers=2, batch_first=True, dropout=0.1)
            self.head = nn.Linear(WIDTH, CLASSES)

        def forward(self, tokens, lengths):
            packed = pack_padded_sequence(
                self.table(tokens), lengths.cpu(), batch_first=True, enforce_sorted=False
            )
            _, (hidden, _) = self.lstm(packed)
            return self.head(hidden[-1])

    batch = ids(4), torch.tensor([8, 3, 5, 6]), torch.tensor([0, 1, 2, 3])
    return Reader(), batch, nn.CrossEntropyLoss()


def speech_with_ctc():
    model = nn.GRU(8, CLASSES)
    labels = torch.randint(1, CLASSES, (4, 3))

    def loss(model, batch):
        scores = model(batch)[0].float().log_softmax(-1)
        lengths = torch.full((4,), 12), torch.full((4,), 3)
        return F.ctc_loss(scores, labels, *lengths, zero_infinity=True)

    return model, torch.randn(12, 4, 8), loss


def a_teacher_in_a_list():
    class Student(MLP):
        def __init__(self):
            super().__init__()
            self.teacher = [MLP().requires_grad_(False)]

        def forward(self, x):
            with torch.no_grad():
                wanted = self.teacher[0](x).float().softmax(-1)
            return F.kl_div(super().forward(x).float().log_softmax(-1), wanted,
                            reduction="batchmean")  # fmt: skip

    return Student(), points()[0]


def soft_labels():
    inputs, labels = points()
    targets = 0.9 * F.one_hot(labels, CLASSES).float() + 0.1 / CLASSES
    return MLP(), (inputs, targets), nn.CrossEntropyLoss()


def likelihood_of_log_softmax():
    model = nn.Sequential(MLP(), nn.LogSoftmax(dim=-1))
    return model, points(), nn.NLLLoss(weight=torch.ones(CLASSES))


def zero_head_of_a_detector():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 4))
    nn.init.zeros_(model[3].weight)
    nn.init.constant_(model[3].bias, 0.5)
    batch = torch.randn(6, 3, 8, 8), torch.randint(2, (6, 4)).float()
    return model, batch, nn.BCEWithLogitsLoss()


def one_cycle_with_layer_rates():
    model = MLP()
    groups = [{"params": layer.parameters(), "lr": rate}
              for layer, rate in ((model.first, 1e-4), (model.second, 1e-3))]  # fmt: skip
    optimizer = torch.optim.AdamW(groups)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, [1e-3, 1e-2], total_steps=500)
    return {"model": model, "batch": points(), "loss": F.cross_entropy, "optimizer": optimizer,
            "scheduler": schedule, "max_grad_norm": 0.5}  # fmt: skip


def a_recurrence_of_thirty_steps():
    class Recurrence(nn.Module):
        def __init__(self):
            super().__init__()
            self.enter, self.step = nn.Linear(8, WIDTH), nn.GRUCell(WIDTH, WIDTH)
            self.leave = nn.Linear(WIDTH, CLASSES)

        def forward(self, x):
            hidden = x = self.enter(x)
            for _ in range(30):
                hidden = self.step(x, hidden)
            return self.leave(hidden)

    return Recurrence(), points(), nn.CrossEntropyLoss()


def attention_with_dropout_in_eval_of_a_part():
    class Partly(nn.Module):
        def __init__(self):
            super().__init__()
            self.enter = nn.Linear(8, WIDTH)
            self.layer = nn.TransformerEncoderLayer(WIDTH, 2, 32, dropout=0.1, batch_first=True)
            self.leave = nn.Linear(WIDTH, 1)

        def forward(self, x):
            return self.leave(self.layer(self.enter(x)[:, None]).mean(1)).squeeze(-1)

    inputs = points()[0]
    return Partly(), (inputs, inputs.sum(1)), nn.SmoothL1Loss()


def gumbel_choice():
    class Choice(MLP):
        def __init__(self):
            super().__init__()
            self.values = nn.Linear(CLASSES, CLASSES)

        def forward(self, x):
            return self.values(F.gumbel_softmax(super().forward(x).float(), tau=1.0, hard=True))

    return Choice(), points(), nn.CrossEntropyLoss()


def targets_in_double():
    # First labelled a fault; mse_loss of torch 2.13 promotes the types.
    model = nn.Linear(8, 1)
    inputs, _ = points()
    return model, (inputs, inputs.double().sum(1, keepdim=True)), nn.MSELoss()

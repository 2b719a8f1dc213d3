"""Faults beside something that looks like their cause and is not, and faults that raise nothing.

Most were misjudged once: the innocent part was named, or nothing.
"""

import torch
from blocks import four_classes, optimized, small_mlp
from torch import nn
from torch.nn import functional

CLASSES = 4


def nan_in_a_column_that_is_not_read():
    inputs, targets = four_classes()
    batch = {"x": inputs, "score": torch.full((8,), float("nan")), "y": targets}

    def loss(model, batch):
        chosen = model(batch["x"]).float().relu().gather(1, batch["y"][:, None])
        return -chosen.log().mean()

    return small_mlp(), batch, loss


def infinite_buffer_that_is_not_read():
    model = small_mlp()
    model.register_buffer("best", torch.tensor(float("inf")))
    return model, four_classes(), lambda model, batch: (model(batch[0]).float() - 5).sqrt().mean()


class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x):
        return self.head(self.attention(x, x, x)[0].detach().mean(1))


def detached_attention():
    return Pooled(), (torch.randn(4, 6, 16), torch.randint(CLASSES, (4,))), nn.CrossEntropyLoss()


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = x + functional.gelu(layer(x))
        return self.head(x)


def last_layer_left_out():
    return Stack(), four_classes(), nn.CrossEntropyLoss()


class NewHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 16)

    def forward(self, x):
        return nn.Linear(16, CLASSES)(functional.relu(self.body(x)))


def layer_made_in_forward():
    return NewHead(), four_classes(), nn.CrossEntropyLoss()


def maximized():
    model = small_mlp()
    return optimized(model, torch.optim.Adam(model.parameters(), 1e-3, maximize=True))


def loss_with_the_wrong_sign():
    return (
        small_mlp(),
        four_classes(),
        lambda model, batch: -functional.cross_entropy(model(batch[0]), batch[1]),
    )


def rate_of_zero_in_one_group():
    model = small_mlp()
    groups = [{"params": model[0].parameters(), "lr": 0.0}, {"params": model[2].parameters()}]
    return optimized(model, torch.optim.AdamW(groups, lr=1e-3, weight_decay=0))


def rate_of_nothing():
    model = small_mlp()
    return optimized(model, torch.optim.AdamW(model.parameters(), lr=1e-13))


class SetBack(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = small_mlp()
        self.start = {name: each.clone() for name, each in self.inner.state_dict().items()}

    def forward(self, x):
        self.inner.load_state_dict(self.start)
        return self.inner(x)


def weights_set_back():
    return SetBack(), four_classes(), nn.CrossEntropyLoss()


def equal_units():
    model = small_mlp()
    for weight in model.parameters():
        nn.init.constant_(weight, 0.1)
    return model, four_classes(), nn.CrossEntropyLoss()


def state_of_another_model():
    model = small_mlp()
    model.load_state_dict(small_mlp(8, CLASSES + 1).state_dict())
    return model, four_classes(), nn.CrossEntropyLoss()


def gradient_of_a_batch():
    def loss(model, batch):
        (slope,) = torch.autograd.grad(model(batch).sum(), batch, create_graph=True)
        return slope.pow(2).mean()

    return small_mlp(8, 1), torch.randn(8, 8), loss


def mask_times_zero():
    mask = torch.zeros(8, 6).masked_fill(torch.arange(6) >= 4, float("-inf"))

    def loss(model, batch):
        scores = model(batch[0]).float() + mask * (torch.arange(6) < 5)
        return functional.cross_entropy(scores, batch[1])

    return small_mlp(8, 6), four_classes(), loss


def steps_that_are_far_too_long():
    model = small_mlp(8, 1)
    batch = 30 * torch.randn(16, 8), 30 * torch.randn(16, 1)
    return optimized(model, torch.optim.SGD(model.parameters(), lr=10.0), batch, nn.MSELoss())


def logarithm_after_an_update():
    model = nn.Linear(4, 1)
    nn.init.constant_(model.weight, 0.01)
    nn.init.constant_(model.bias, 0.02)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def loss(model, batch):
        return model(batch).float().clamp(min=0).log().mean()

    return {"model": model, "batch": torch.rand(8, 4), "loss": loss, "optimizer": optimizer}


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        row = {"a": torch.randn(8)}
        return row["b"], 1


def key_error_in_a_worker():
    loader = torch.utils.data.DataLoader(Rows(), 4, num_workers=2)
    return small_mlp(), loader, nn.CrossEntropyLoss()


def index_in_a_python_list():
    names = ["first", "second"]

    def loss(model, batch):
        print(names[5])
        return functional.cross_entropy(model(batch[0]), batch[1])

    return small_mlp(), four_classes(), loss

"""Healthy trainings of a web shop that resemble the faults of set 18."""

import copy

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence


class Tiles(nn.Module):
    """Positions of tiles are whole numbers, and index a table."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Embedding(8, 8)
        self.mix = nn.Linear(8, 4)

    def forward(self, places):
        return self.mix(self.rows(places // 16).mean(1))


def tiles_by_row():
    return (
        Tiles(),
        (torch.randint(0, 128, (8, 5)), torch.randint(0, 4, (8,))),
        nn.CrossEntropyLoss(),
    )


class Steps(nn.Module):
    """Attention over the steps so far, of which the first is one."""

    def __init__(self) -> None:
        super().__init__()
        self.queries, self.keys, self.values = (nn.Linear(8, 8) for _ in range(3))
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        results = []
        for step in range(1, x.shape[1] + 1):
            seen = x[:, :step]
            query = self.queries(seen[:, -1:])
            results.append(
                F.scaled_dot_product_attention(query, self.keys(seen), self.values(seen))
            )
        return self.out(torch.cat(results, 1).mean(1))


def attention_step_by_step():
    return Steps(), (torch.randn(6, 4, 8), torch.randint(0, 3, (6,))), nn.CrossEntropyLoss()


def batch_norm_of_three():
    model = nn.Sequential(nn.Linear(10, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 1))
    return model, (torch.randn(3, 10), torch.rand(3, 1)), nn.MSELoss()


def pictures_in_pairs():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 3)
    )
    return model, (torch.randn(2, 3, 8, 8), torch.randint(0, 3, (2,))), nn.CrossEntropyLoss()


class Remembering(nn.Module):
    """The forward pass reads what a hook has stored on a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 16))
        self.tags = nn.Linear(16, 5)
        self.body[0].register_forward_hook(self.remember)

    @staticmethod
    def remember(layer, args, output):
        layer.output = output

    def forward(self, x):
        return self.tags(self.body(x) + self.body[0].output)


def hooks_of_a_copy():
    model = copy.deepcopy(Remembering())
    return model, (torch.randn(16, 12), torch.randint(0, 5, (16,))), nn.CrossEntropyLoss()


def shapes_that_a_hook_printed():
    """A model that was inspected with hooks, and then replaced by a larger one."""
    shapes = []
    small = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 3))
    for layer in small:
        layer.register_forward_hook(lambda layer, args, output: shapes.append(output.shape))
    small(torch.randn(2, 6))
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, shapes[-1][1]))
    return model, (torch.randn(8, 6), torch.randint(0, 3, (8,))), nn.CrossEntropyLoss()


class LengthFirst(nn.Module):
    """A recurrent layer that takes the length first, as pad_sequence returns it."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(60, 12)
        self.reader = nn.GRU(12, 16)
        self.stars = nn.Linear(16, 5)

    def forward(self, reviews):
        _, last = self.reader(self.words(pad_sequence(reviews)))
        return self.stars(last[-1])


def reviews_with_the_length_first():
    reviews = [torch.randint(1, 60, (length,)) for length in (9, 4, 6)]

    def loss(model, batch):
        return F.cross_entropy(model(batch[0]), batch[1])

    return LengthFirst(), (reviews, torch.randint(0, 5, (3,))), loss


class Codes(nn.Module):
    """A codebook whose entries follow their members, and stay as they are without."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(5, 4)
        self.back = nn.Linear(4, 5)
        self.register_buffer("codes", torch.randn(12, 4))

    def forward(self, x):
        z = self.embed(x)
        nearest = torch.cdist(z.detach().float(), self.codes).argmin(1)
        chosen = self.codes[nearest]
        loss = F.mse_loss(self.back(z + (chosen - z).detach()), x) + F.mse_loss(z, chosen)
        with torch.no_grad():
            members = F.one_hot(nearest, 12).float()
            counts = members.sum(0)[:, None]
            means = members.t() @ z.float() / counts.clamp(min=1)
            self.codes.copy_(torch.where(counts > 0, means, self.codes))
        return loss


def codebook_with_counts():
    return Codes(), torch.randn(10, 5)


def margins_in_the_optimizer():
    """The weights of a loss are trained too, and are no part of the model."""
    model = nn.Linear(6, 8)
    centres = nn.Parameter(torch.randn(3, 8))
    optimizer = torch.optim.AdamW([*model.parameters(), centres], lr=1e-3)

    def loss(model, batch):
        return F.cross_entropy(model(batch[0]) @ centres.t(), batch[1])

    batch = torch.randn(8, 6), torch.randint(0, 3, (8,))
    return {"model": model, "batch": batch, "loss": loss, "optimizer": optimizer}


def weight_of_a_second_loss():
    """The only function is called with a factor of 10."""
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))

    def loss(model, batch):
        return 10.0 * F.cross_entropy(model(batch[0]), batch[1])

    return model, (torch.randn(8, 6), torch.randint(0, 3, (8,))), loss


class Clipped(nn.Module):
    """A critic whose weights are clipped in the forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 8), nn.Linear(8, 1)

    def forward(self, x):
        with torch.no_grad():
            for weight in self.parameters():
                weight.clamp_(-0.3, 0.3)
        return self.last(F.relu(self.first(x)))


def critic_with_clipped_weights():
    return Clipped(), (torch.randn(16, 6), torch.randn(16, 1)), nn.MSELoss()

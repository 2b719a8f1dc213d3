"""Trainings of a web shop that run and do not learn; each factory has one fault."""

import copy

import torch
from torch import nn
from torch.nn import functional as F


class Thumbnails(nn.Module):
    """Classes of products from small pictures of bytes."""

    def __init__(self, classes: int = 6) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.head = nn.Linear(8, classes)

    def forward(self, pictures):
        levels = torch.div(pictures, 256, rounding_mode="trunc")
        hidden = F.relu(self.stem(levels.float()))
        return self.head(hidden.mean((2, 3)))


def thumbnails_in_levels():
    pictures = torch.randint(0, 256, (12, 3, 8, 8))
    return Thumbnails(), (pictures, torch.randint(0, 6, (12,))), nn.CrossEntropyLoss()


class Basket(nn.Module):
    """The next product from the products of a basket, weighted by their number."""

    def __init__(self) -> None:
        super().__init__()
        self.products = nn.Embedding(40, 16)
        self.next = nn.Linear(16, 40)

    def forward(self, products, numbers):
        share = (numbers / numbers.sum(1, keepdim=True)).long()
        basket = (self.products(products) * share[..., None]).sum(1)
        return self.next(basket)


def baskets_with_shares():
    def loss(model, batch):
        return F.cross_entropy(model(batch["products"], batch["numbers"]), batch["next"])

    batch = {
        "products": torch.randint(0, 40, (10, 4)),
        "numbers": torch.randint(1, 5, (10, 4)),
        "next": torch.randint(0, 40, (10,)),
    }
    return Basket(), batch, loss


class Search(nn.Module):
    """Queries attend to the description of a product."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50, 16)
        self.attention = nn.MultiheadAttention(16, 4)
        self.score = nn.Linear(16, 2)

    def forward(self, query, description):
        words, context = self.words(query), self.words(description)
        found, _ = self.attention(words, context, context)
        return self.score(found.mean(1))


def search_in_descriptions():
    # (1, length): one description, with the batch first
    query, description = torch.randint(0, 50, (1, 7)), torch.randint(0, 50, (1, 7))

    def loss(model, batch):
        return F.cross_entropy(model(batch[0], batch[1]), batch[2])

    return Search(), (query, description, torch.ones(1, dtype=torch.long)), loss


class Session(nn.Module):
    """A transformer over the clicks of a session."""

    def __init__(self) -> None:
        super().__init__()
        self.pages = nn.Embedding(30, 12)
        layer = nn.TransformerEncoderLayer(12, 3, 24, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.buys = nn.Linear(12, 1)

    def forward(self, pages):
        own = torch.eye(pages.shape[1], dtype=torch.bool)
        hidden = self.encoder(self.pages(pages), mask=~own)
        return self.buys(hidden[:, -1]).squeeze(1)


def sessions_of_clicks():
    pages = torch.randint(0, 30, (8, 5))
    return Session(), (pages, torch.rand(8).round()), nn.BCEWithLogitsLoss()


def returns_in_pairs():
    model = nn.Sequential(
        nn.Linear(10, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 8), nn.ReLU(),
        nn.Linear(8, 1),
    )  # fmt: skip
    return model, (torch.randn(2, 10), torch.rand(2, 1)), nn.MSELoss()


class Similar(nn.Module):
    """Two views of a product, the second as the target of the first."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(12, 8)
        self.predictor = nn.Linear(8, 8)
        self.price = nn.Linear(12, 1)

    def forward(self, first, second, price):
        online = self.predictor(self.encoder(first)).detach()
        target = self.encoder(second).detach()
        likeness = F.mse_loss(F.normalize(online, dim=-1), F.normalize(target, dim=-1))
        return likeness + F.mse_loss(self.price(first), price)


def views_of_a_product():
    return Similar(), (torch.randn(16, 12), torch.randn(16, 12), torch.randn(16, 1))


class Tagged(nn.Module):
    """A head over features that a hook collects."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU())
        self.tags = nn.Linear(16, 5)
        self.aside = nn.Linear(16, 5)
        self.collected = []
        self.body[2].register_forward_hook(self.collect)

    def collect(self, layer, args, output):
        self.collected.append(output)

    def forward(self, x):
        self.collected.clear()
        logits = self.tags(self.body(x))
        for features in self.collected:
            logits = logits + self.aside(features)
        return logits


def tags_with_a_new_body():
    model = Tagged()
    model.body[2] = nn.utils.parametrizations.weight_norm(nn.Linear(16, 16))
    return model, (torch.randn(16, 12), torch.randint(0, 5, (16,))), nn.CrossEntropyLoss()


def prices_with_one_class():
    model = nn.Sequential(nn.Linear(9, 16), nn.Tanh(), nn.Linear(16, 1))

    def loss(model, batch):
        return F.cross_entropy(model(batch[0]), batch[1])

    return model, (torch.randn(20, 9), torch.zeros(20, dtype=torch.long)), loss


def delivery_with_a_new_head():
    model = nn.Sequential(nn.Linear(7, 16), nn.GELU(), nn.Linear(16, 100))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model[2] = nn.Linear(16, 4)
    batch = torch.randn(16, 7), torch.randint(0, 4, (16,))
    return {"model": model, "batch": batch, "loss": nn.CrossEntropyLoss(), "optimizer": optimizer}


class Averaged(nn.Module):
    """The network and a slow copy that smooths it."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Linear(6, 3)
        self.slow = [copy.deepcopy(each.data) for each in self.network.parameters()]

    def forward(self, x):
        for slow, weight in zip(self.slow, self.network.parameters(), strict=True):
            slow.mul_(0.999).add_(weight.data, alpha=0.001)
            weight.data = slow.clone()
        return self.network(x)


def stock_with_a_slow_copy():
    batch = torch.randn(16, 6), torch.randint(0, 3, (16,))
    return Averaged(), batch, nn.CrossEntropyLoss()


def reviews_with_a_scaled_loss():
    model = nn.Sequential(nn.Linear(14, 16), nn.ReLU(), nn.Linear(16, 5))

    def loss(model, batch):
        return 2.0**15 * F.cross_entropy(model(batch[0]), batch[1])

    return model, (torch.randn(16, 14), torch.randint(0, 5, (16,))), loss

"""More parameters without a gradient, or with zeros, written beside the observations."""

import torch
from parts_13 import perceptron, samples
from torch import nn
from torch.nn import functional as F


class Long(nn.Module):
    def __init__(self):
        super().__init__()
        self.pos, self.table, self.head = nn.Linear(6, 1), nn.Embedding(16, 8), nn.Linear(8, 4)

    def forward(self, x):
        index = (self.pos(x).sigmoid() * 15).long()[:, 0]
        return self.head(self.table(index))


def index_by_cast():
    return Long(), samples(), nn.CrossEntropyLoss()


class Thresh(nn.Module):
    def __init__(self):
        super().__init__()
        self.score, self.head = nn.Linear(6, 6), nn.Linear(6, 4)

    def forward(self, x):
        keep = (self.score(x) > 0).float()
        return self.head(x * keep)


def keep_by_threshold():
    return Thresh(), samples(), nn.CrossEntropyLoss()


class Slice(nn.Module):
    def __init__(self):
        super().__init__()
        self.text, self.image, self.head = nn.Linear(6, 8), nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x):
        h = torch.cat([self.text(x), self.image(x)], 1)
        return self.head(h[:, :8])


def half_of_the_concatenation():
    return Slice(), samples(), nn.CrossEntropyLoss()


class Gather(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(12, 8, padding_idx=0)
        self.pos = nn.Embedding(5, 8)
        self.lstm = nn.LSTM(8, 8, batch_first=True)
        self.head = nn.Linear(8, 4)

    def forward(self, t):
        out, _ = self.lstm(self.emb(t))
        length = (t != 0).sum(1)
        mask = (torch.arange(5)[None] >= length[:, None]).float()[..., None]
        pooled = (out * mask + self.pos(torch.arange(5)) * mask).sum(1)
        return self.head(pooled)


def mask_is_inverted():
    torch.manual_seed(0)
    return (
        Gather(),
        (torch.randint(1, 12, (8, 5)), torch.randint(0, 4, (8,))),
        nn.CrossEntropyLoss(),
    )


class Temp(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = perceptron()
        self.temperature = nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        return self.net(x) / float(self.temperature)


def temperature_as_float():
    return Temp(), samples(), nn.CrossEntropyLoss()


class Hard(nn.Module):
    def __init__(self):
        super().__init__()
        self.codes, self.enc, self.dec = nn.Embedding(4, 3), nn.Linear(6, 3), nn.Linear(3, 6)

    def forward(self, x):
        z = self.enc(x)
        code = torch.cdist(z, self.codes.weight).argmin(1)
        q = self.codes(code)
        q = z + (q - z).detach()
        return F.mse_loss(self.dec(q), x)


def codebook_without_its_loss():
    return Hard(), samples()[0]


class Ens(nn.Module):
    def __init__(self):
        super().__init__()
        self.members = nn.ModuleList(nn.Linear(6, 4) for _ in range(3))

    def forward(self, x):
        return torch.stack([m(x) for m in self.members])[0]


def first_member_only():
    return Ens(), samples(), nn.CrossEntropyLoss()


class Spatial(nn.Module):
    def __init__(self):
        super().__init__()
        self.loc, self.head = nn.Linear(36, 2), nn.Linear(9, 4)

    def forward(self, im):
        c = self.loc(im.flatten(1)).sigmoid() * 3
        crops = [
            i[0, int(a) : int(a) + 3, int(b) : int(b) + 3].flatten()
            for i, (a, b) in zip(im, c, strict=True)
        ]
        return self.head(torch.stack(crops))


def crop_by_int():
    torch.manual_seed(0)
    return Spatial(), (torch.randn(4, 1, 6, 6), torch.randint(0, 4, (4,))), nn.CrossEntropyLoss()


class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = nn.Linear(6, 8), nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.head(torch.max(torch.stack([self.a(x), self.b(x) - 1000]), 0).values)


def max_of_two_branches():
    return Pool(), samples(), nn.CrossEntropyLoss()


class Hook(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x):
        h = self.body(x).relu()
        h.register_hook(lambda g: torch.zeros_like(g))
        return self.head(h)


def hook_on_activation():
    return Hook(), samples(), nn.CrossEntropyLoss()


def module_backward_hook():
    model = perceptron()
    model[0].register_full_backward_hook(
        lambda m, gi, go: tuple(None if g is None else g * 0 for g in gi)
    )
    model = nn.Sequential(nn.Linear(6, 6), model)
    return model, samples(), nn.CrossEntropyLoss()


class Pad(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x):
        h = self.body(x)
        out = torch.zeros_like(h)
        out[:, :] = h.data
        return self.head(out)


def written_through_data():
    return Pad(), samples(), nn.CrossEntropyLoss()


class Over(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x, mask):
        h = self.body(x)
        h[mask] = 0
        return self.head(h)


def everything_overwritten():
    x, y = samples()
    m = Over()
    return (
        m,
        (x, torch.ones(8, dtype=torch.bool), y),
        lambda m, b: F.cross_entropy(m(b[0], b[1]), b[2]),
    )


class Cond(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 4), nn.Linear(6, 4)

    def forward(self, x):
        if self.training:
            return self.a(x)
        return self.b(x)


def evaluation_branch():
    return Cond(), samples(), nn.CrossEntropyLoss()


class Relu6(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.head(F.hardtanh(self.body(x * 1e6)))


def hardtanh_of_raw():
    return Relu6(), samples(), nn.CrossEntropyLoss()


class LoraZero(nn.Module):
    def __init__(self, alpha=0):
        super().__init__()
        self.base = nn.Linear(6, 4)
        self.base.requires_grad_(False)
        self.down, self.up = nn.Linear(6, 2, bias=False), nn.Linear(2, 4, bias=False)
        self.scale = alpha / 2

    def forward(self, x):
        return self.base(x) + self.scale * self.up(self.down(x))


def alpha_of_zero():
    return LoraZero(), samples(), nn.CrossEntropyLoss()

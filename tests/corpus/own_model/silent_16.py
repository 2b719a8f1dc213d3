"""Models of several groups: routing, physics, images, meta-learning, generation."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import weight_norm


class _Switch(nn.Module):
    def __init__(self, width=16, experts=4, chosen=1):
        super().__init__()
        self.chosen = chosen
        self.router = nn.Linear(width, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width))
            for _ in range(experts)
        )

    def forward(self, x):
        scores, choice = self.router(x).float().topk(self.chosen, dim=-1)
        gates = torch.softmax(scores, dim=-1)
        out = torch.zeros_like(x, dtype=torch.float32)
        for index, expert in enumerate(self.experts):
            share = (gates * (choice == index)).sum(-1, keepdim=True)
            out = out + share * expert(x).float()
        return out


class _Forecaster(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.inputs = nn.Linear(9, width)
        self.norm = nn.LayerNorm(width)
        self.switch = _Switch(width)
        self.outputs = nn.Linear(width, 1)

    def forward(self, x):
        h = self.inputs(x)
        return self.outputs(h + self.switch(self.norm(h))).squeeze(-1)


def demand_with_specialists():
    return _Forecaster(), (torch.randn(128, 9), torch.randn(128)), nn.MSELoss()


class _Heat(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.temperature = nn.Sequential(
            nn.Linear(1, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)
        )
        self.conductivity = nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, x):
        return self.temperature(x).float()


def _heat_loss(model, batch):
    x, sensors, measured = batch
    x = x.clone().requires_grad_(True)
    u = model(x)
    (u_x,) = torch.autograd.grad(u.sum(), x, create_graph=True)
    (u_xx,) = torch.autograd.grad(u_x.sum(), x, create_graph=True)
    k = F.softplus(model.conductivity(x).float())
    residual = k * u_xx + torch.sin(math.pi * x)
    return residual.pow(2).mean() + 10 * F.mse_loss(model(sensors), measured)


def heat_in_a_rod():
    sensors = torch.linspace(0, 1, 12)[:, None]
    batch = torch.rand(64, 1), sensors, torch.sin(math.pi * sensors)
    model = _Heat()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return {"model": model, "batch": batch, "loss": _heat_loss, "optimizer": optimizer}


class _Quantizer(nn.Module):
    def __init__(self, codes=32, width=8):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, 16, 4, stride=2, padding=1), nn.ReLU(), nn.Conv2d(16, width, 3, padding=1)
        )
        self.codebook = nn.Embedding(codes, width)
        self.decoder = nn.Sequential(
            nn.Conv2d(width, 16, 3, padding=1), nn.ReLU(), nn.ConvTranspose2d(16, 1, 2, stride=2)
        )

    def forward(self, x):
        z = self.encoder(x).float().permute(0, 2, 3, 1)
        flat = z.reshape(-1, z.shape[-1])
        book = self.codebook.weight
        apart = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ book.t() + book.pow(2).sum(1)
        nearest = self.codebook(apart.argmin(1)).view_as(z)
        pull = F.mse_loss(nearest, z.detach())
        return self.decoder(nearest.permute(0, 3, 1, 2)).float(), pull


def _quantizer_loss(model, x):
    rebuilt, pull = model(x)
    return F.mse_loss(rebuilt, x) + pull


def tokens_of_tiles():
    return {"model": _Quantizer(), "batch": torch.rand(8, 1, 16, 16), "loss": _quantizer_loss}


class _Waves(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.inputs = nn.Conv1d(1, width, 9, padding=4)
        self.middle = nn.Conv1d(width, width, 5, padding=2)
        self.norm = nn.BatchNorm1d(width)
        self.head = nn.Linear(width, 5)

    def forward(self, x):
        h = F.elu(self.inputs(x))
        h = F.elu(self.norm(self.middle(h)))
        return self.head(h.mean(-1))


def heartbeats():
    model = _Waves()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    for layer in (model.inputs, model.middle):
        weight_norm(layer)
    return {
        "model": model,
        "batch": (torch.randn(8, 1, 64), torch.randint(0, 5, (8,))),
        "loss": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
    }


class _Learner(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 1))
        self.rates = nn.ParameterList(
            nn.Parameter(torch.full_like(weight, 0.01)) for weight in self.net.parameters()
        )


def _error(net, params, x, y):
    return F.mse_loss(torch.func.functional_call(net, params, (x,)).float(), y)


def _episodes(model, batch):
    total = 0.0
    for x, y, query_x, query_y in zip(*batch, strict=True):
        params = {name: weight.detach() for name, weight in model.net.named_parameters()}
        for _ in range(2):
            grads = torch.func.grad(lambda p, x=x, y=y: _error(model.net, p, x, y))(params)
            params = {
                name: weight - rate * grads[name]
                for (name, weight), rate in zip(params.items(), model.rates, strict=True)
            }
        total = total + _error(model.net, params, query_x, query_y)
    return total / len(batch[0])


def sinusoids_from_ten_points():
    phase = torch.rand(4, 1, 1) * math.pi
    x, query = torch.rand(2, 4, 10, 1) * 10 - 5
    batch = x, torch.sin(x + phase), query, torch.sin(query + phase)
    model = _Learner()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return {"model": model, "batch": batch, "loss": _episodes, "optimizer": optimizer}


class _Tower(nn.Module):
    def __init__(self, inputs, width=16):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, 48), nn.GELU(), nn.LayerNorm(48))
        self.project = nn.Linear(48, width, bias=False)

    def forward(self, x):
        return F.normalize(self.project(self.body(x)).float(), dim=-1)


class _Pairs(nn.Module):
    def __init__(self):
        super().__init__()
        self.image = _Tower(40)
        self.text = _Tower(24)
        self.logit_scale = nn.Parameter(torch.tensor(1 / 0.07).log())

    def forward(self, image, text):
        scale = self.logit_scale.exp().clamp(max=math.log(100))
        return scale * self.image(image) @ self.text(text).t()


def _pairs_loss(model, batch):
    logits = model(*batch).float()
    own = torch.arange(len(logits))
    return (F.cross_entropy(logits, own) + F.cross_entropy(logits.t(), own)) / 2


def captions_of_maps():
    model = _Pairs()
    return {
        "model": model,
        "batch": (torch.randn(16, 40), torch.randn(16, 24)),
        "loss": _pairs_loss,
        "optimizer": torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.2),
    }


class _Guided(nn.Module):
    def __init__(self, classes=10, width=32, unconditional=0.0):
        super().__init__()
        self.unconditional = unconditional
        self.kind = nn.Embedding(classes, width)
        self.nothing = nn.Parameter(torch.randn(width) * 0.02)
        self.time = nn.Sequential(nn.Linear(1, width), nn.SiLU(), nn.Linear(width, width))
        self.inputs = nn.Linear(12, width)
        self.outputs = nn.Sequential(nn.SiLU(), nn.Linear(width, 12))

    def forward(self, noisy, t, kind):
        left_out = torch.rand(len(kind)) >= self.unconditional
        kind = torch.where(left_out[:, None], self.nothing, self.kind(kind))
        return self.outputs(self.inputs(noisy) + self.time(t[:, None]) + kind)


def _flow_matching(model, batch):
    x, kind = batch
    t = torch.rand(len(x))
    noise = torch.randn_like(x)
    path = (1 - t[:, None]) * noise + t[:, None] * x
    return F.mse_loss(model(path, t, kind).float(), x - noise)


def poses_by_kind():
    batch = torch.randn(64, 12), torch.randint(0, 10, (64,))
    return {"model": _Guided(unconditional=0.0), "batch": batch, "loss": _flow_matching}


class _Sketches(nn.Module):
    def __init__(self, codes=10):
        super().__init__()
        self.codes = codes
        self.generator = nn.Sequential(
            nn.Linear(codes, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 100), nn.Tanh()
        )
        self.discriminator = nn.Sequential(nn.Linear(100, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))


def _sketches_loss(model, real):
    fake = model.generator(torch.randn(len(real), model.codes)).detach()
    on_real, on_fake = model.discriminator(real), model.discriminator(fake)
    judge = F.softplus(-on_real.float()).mean() + F.softplus(on_fake.float()).mean()
    return judge + F.softplus(-model.discriminator(fake).float()).mean()


def sketches_from_codes():
    return {"model": _Sketches(), "batch": torch.rand(16, 100) * 2 - 1, "loss": _sketches_loss}


class _Translator(nn.Module):
    def __init__(self, vocabulary=30, width=64):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, 4, 128, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(self.encoder(self.embed(tokens)))


def _translator_loss(model, batch):
    source, target = batch
    return F.cross_entropy(model(source).float().flatten(0, 1), target.flatten())


def phrases():
    model = _Translator()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)

    def noam(step, width=64, warmup=4000):
        step = max(step, 1)
        return width**-0.5 * min(step**-0.5, step * warmup**-1.5)

    return {
        "model": model,
        "batch": (torch.randint(0, 30, (8, 12)), torch.randint(0, 30, (8, 12))),
        "loss": _translator_loss,
        "optimizer": optimizer,
        "scheduler": torch.optim.lr_scheduler.LambdaLR(optimizer, noam),
    }


class _Roofs(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(6))
        self.head = nn.Conv2d(width, 2, 1)

    def forward(self, image):
        h = F.relu(self.stem(image))
        for block in self.blocks:
            h = h + F.relu(block(h))
        return self.head(h)


def roofs_from_above():
    batch_size, base_rate = 4096, 0.1
    model = _Roofs()
    optimizer = torch.optim.SGD(model.parameters(), lr=base_rate * batch_size, momentum=0.9)
    return {
        "model": model,
        "batch": (torch.randn(4, 3, 16, 16), torch.randint(0, 2, (4, 16, 16))),
        "loss": nn.CrossEntropyLoss(),
        "optimizer": optimizer,
    }


class _Streets(nn.Module):
    def __init__(self, classes=5):
        super().__init__()
        self.low = nn.Sequential(nn.Conv2d(3, 12, 3, stride=2, padding=1), nn.ReLU())
        self.high = nn.Sequential(nn.Conv2d(12, 24, 3, stride=2, padding=1), nn.ReLU())
        self.side_low = nn.Conv2d(12, classes, 1)
        self.side_high = nn.Conv2d(24, classes, 1)
        self.fuse = nn.Conv2d(36, classes, 3, padding=1)

    def forward(self, image):
        low = self.low(image)
        high = self.high(low)
        both = torch.cat([low, F.interpolate(high, scale_factor=2.0)], dim=1)
        return self.fuse(both), [self.side_low(low), self.side_high(high)]


def _streets_loss(model, batch):
    image, mask = batch
    main, sides = model(image)
    size = mask.shape[-2:]
    loss = F.cross_entropy(F.interpolate(main.float(), size=size), mask, ignore_index=255)
    extra = [
        F.cross_entropy(F.interpolate(side.float(), size=size), mask, ignore_index=255)
        for side in sides
    ]
    return loss + 0.4 * torch.tensor(extra).mean()


def streets_with_side_outputs():
    mask = torch.randint(0, 5, (2, 16, 16))
    mask[:, :2] = 255
    batch = torch.randn(2, 3, 16, 16), mask
    return {"model": _Streets(), "batch": batch, "loss": _streets_loss}


class _Upright(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.locate = nn.Sequential(
            nn.Conv2d(1, 8, 5, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten()
        )
        self.theta = nn.Linear(72, 6)
        nn.init.normal_(self.theta.weight, std=1e-3)
        self.theta.bias.data = torch.tensor([1.0, 0.0, 0.0, 0.0, 1.0, 0.0])
        self.read = nn.Sequential(
            nn.Conv2d(1, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten()
        )
        self.head = nn.Linear(128, classes)

    def forward(self, plate):
        theta = self.theta(self.locate(plate)).float().view(-1, 2, 3)
        grid = F.affine_grid(theta, list(plate.shape), align_corners=False)
        turned = F.grid_sample(plate, grid, mode="nearest", align_corners=False)
        return self.head(self.read(turned))


def number_plates():
    batch = torch.randn(8, 1, 20, 20), torch.randint(0, 4, (8,))
    return {"model": _Upright(), "batch": batch, "loss": nn.CrossEntropyLoss()}


class _Several(nn.Module):
    def __init__(self, members=3):
        super().__init__()
        self.members = nn.ModuleList(
            nn.Sequential(nn.Linear(7, 24), nn.Tanh(), nn.Linear(24, 1)) for _ in range(members)
        )
        self.params, self.state = torch.func.stack_module_state(list(self.members))

    def forward(self, x):
        def one(params, state, x):
            return torch.func.functional_call(self.members[0], (params, state), (x,))

        out = torch.func.vmap(one, in_dims=(0, 0, None))(self.params, self.state, x)
        return out.squeeze(-1)


def _several_loss(model, batch):
    x, y = batch
    return (model(x).float() - y).pow(2).mean(1).sum()


def opinions_on_a_price():
    model = _Several()
    return {
        "model": model,
        "batch": (torch.randn(32, 7), torch.randn(32)),
        "loss": _several_loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }

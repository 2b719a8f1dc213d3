"""Models of a research group: generators, experts, ensembles, physics."""

import copy
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Normal, kl_divergence
from torch.nn.utils import parametrize


class _Posterior(nn.Module):
    def __init__(self, pixels=64, codes=8):
        super().__init__()
        self.inputs = nn.Linear(pixels, 48)
        self.mean = nn.Linear(48, codes)
        self.spread = nn.Linear(48, codes)

    def forward(self, x):
        h = F.relu(self.inputs(x))
        return Normal(self.mean(h).float(), F.relu(self.spread(h)).float())


class _Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = _Posterior()
        self.decoder = nn.Sequential(nn.Linear(8, 48), nn.ReLU(), nn.Linear(48, 64))

    def forward(self, x):
        posterior = self.encoder(x)
        logits = self.decoder(posterior.rsample()).float()
        rebuilt = F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(1)
        prior = Normal(torch.zeros(8), torch.ones(8))
        return (rebuilt + kl_divergence(posterior, prior).sum(1)).mean()


def codes_of_sketches():
    return _Autoencoder(), (torch.rand(16, 64) > 0.6).float()


class _Cells(nn.Module):
    def __init__(self, classes=6):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
        )
        self.attend = nn.Conv2d(32, 1, 1)
        self.head = nn.Linear(32 * 16, classes)

    def forward(self, x):
        x = self.features(x)
        x = x * torch.sigmoid(self.attend(x))
        return self.head(x.view(x.shape[0], -1))


def blood_cells():
    model = _Cells().to(memory_format=torch.channels_last)
    images = torch.randn(8, 3, 16, 16).to(memory_format=torch.channels_last)
    labels = torch.randint(0, 6, (8,))
    return {"model": model, "batch": (images, labels), "loss": nn.CrossEntropyLoss()}


class _Field(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
        )
        self.stiffness = nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        return self.net(x)


def _slope(value, x):
    return torch.autograd.grad(value, x, torch.ones_like(value))[0]


def _beam_loss(model, x):
    x = x.clone().requires_grad_(True)
    bend = model(x)
    curve = _slope(_slope(bend, x), x)
    load = torch.sin(math.pi * x)
    ends = model(torch.tensor([[0.0], [1.0]]))
    return (model.stiffness * curve + load).pow(2).mean() + ends.pow(2).mean()


def bending_of_a_beam():
    return {"model": _Field(), "batch": torch.rand(64, 1), "loss": _beam_loss}


class _Polar(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        radius = (x * x + y * y + 1e-6).sqrt()
        ctx.save_for_backward(x, y, radius)
        return radius, torch.atan2(y, x)

    @staticmethod
    def backward(ctx, grad):
        x, y, radius = ctx.saved_tensors
        return grad * x / radius, grad * y / radius


class _Wind(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.GRU(5, 16, batch_first=True)
        self.head = nn.Linear(16, 2)

    def forward(self, history):
        steps, _ = self.encoder(history)
        x, y = self.head(steps[:, -1]).float().unbind(-1)
        return _Polar.apply(x, y)


def _wind_loss(model, batch):
    history, speed, heading = batch
    radius, angle = model(history)
    return F.mse_loss(radius, speed) + (1 - torch.cos(angle - heading)).mean()


def wind_at_the_turbine():
    batch = torch.randn(8, 20, 5), torch.rand(8) * 3, torch.rand(8) * 6
    return {"model": _Wind(), "batch": batch, "loss": _wind_loss}


class _Committee(nn.Module):
    def __init__(self, members=4, features=10):
        super().__init__()
        nets = [
            nn.Sequential(nn.Linear(features, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 1))
            for _ in range(members)
        ]
        params, _ = torch.func.stack_module_state(nets)
        self.names = list(params)
        self.stacked = nn.ParameterList(nn.Parameter(params[name].detach()) for name in self.names)
        self.skeleton = [copy.deepcopy(nets[0]).to("meta")]

    def forward(self, x):
        def one(params, x):
            return torch.func.functional_call(self.skeleton[0], params, (x,))

        params = dict(zip(self.names, self.stacked, strict=True))
        return torch.func.vmap(one, in_dims=(0, None))(params, x).squeeze(-1)


def _committee_loss(model, batch):
    x, y = batch
    return (model(x).float() - y[None]).pow(2).mean()


def committee_of_regressors():
    return {
        "model": _Committee(),
        "batch": (torch.randn(32, 10), torch.randn(32)),
        "loss": _committee_loss,
    }


class _Expert(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return self.down(F.silu(self.up(x)))


class _Mixture(nn.Module):
    def __init__(self, width=16, experts=3):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(_Expert(width) for _ in range(experts))

    def forward(self, x):
        tokens = self.norm(x).flatten(0, 1)
        share, choice = self.router(tokens).float().softmax(-1).max(-1)
        out = torch.zeros_like(tokens)
        for index, expert in enumerate(self.experts):
            chosen = choice == index
            out[chosen] = expert(tokens[chosen])
        return x + (out * share[:, None]).view_as(x)


class _Words(nn.Module):
    def __init__(self, vocabulary=40, width=16):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.mixture = _Mixture(width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(self.mixture(self.embed(tokens)))


def _words_loss(model, tokens):
    logits = model(tokens[:, :-1]).float()
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def words_and_specialists():
    return {"model": _Words(), "batch": torch.randint(0, 40, (4, 17)), "loss": _words_loss}


class _Stage(nn.Module):
    def __init__(self, inputs, outputs, time):
        super().__init__()
        self.time = nn.Linear(time, outputs)
        self.norm = nn.GroupNorm(4, outputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)

    def forward(self, x, code):
        h = F.silu(self.norm(self.conv1(x)))
        h = h + self.time(code)
        return self.conv2(F.silu(h))


class _Painter(nn.Module):
    def __init__(self, time=32):
        super().__init__()
        self.embed = nn.Embedding(50, time)
        self.down = _Stage(3, 16, time)
        self.up = _Stage(16, 16, time)
        self.outputs = nn.Conv2d(16, 3, 1)

    def forward(self, noisy, t):
        code = F.silu(self.embed(t))
        h = self.up(F.avg_pool2d(self.down(noisy, code), 2), code)
        return self.outputs(F.interpolate(h, scale_factor=2.0))


def _painter_loss(model, images):
    t = torch.randint(0, 50, (len(images),))
    kept = (1 - (t + 1) / 60)[:, None, None, None]
    noise = torch.randn_like(images)
    return F.mse_loss(model(kept.sqrt() * images + (1 - kept).sqrt() * noise, t), noise)


def noise_of_portraits():
    return {"model": _Painter(), "batch": torch.randn(6, 3, 16, 16), "loss": _painter_loss}


class _Mirror(nn.Module):
    def forward(self, weight):
        return weight.triu() + weight.triu(1).transpose(-1, -2)


class _Grains(nn.Module):
    def __init__(self, features=20, width=8, classes=3):
        super().__init__()
        self.inputs = nn.Linear(features, 32)
        self.energy = nn.Linear(32, width, bias=False)
        self.head = nn.Linear(width, classes)
        parametrize.register_parametrization(self.energy, "weight", _Mirror())

    def forward(self, x):
        return self.head(torch.tanh(self.energy(torch.tanh(self.inputs(x)))))


def grains_of_sand():
    return _Grains(), (torch.randn(32, 20), torch.randint(0, 3, (32,))), nn.CrossEntropyLoss()


class _Faces(nn.Module):
    def __init__(self, codes=8):
        super().__init__()
        self.codes = codes
        self.generator = nn.Sequential(nn.Linear(codes, 32), nn.ReLU(), nn.Linear(32, 64))
        self.discriminator = nn.Sequential(nn.Linear(64, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
        self.optimizer = [torch.optim.Adam(self.discriminator.parameters(), lr=2e-4)]


def _judge(logits, value):
    return F.binary_cross_entropy_with_logits(
        logits.float(), torch.full_like(logits, value).float()
    )


def _faces_loss(model, real):
    fake = model.generator(torch.randn(len(real), model.codes))
    model.optimizer[0].zero_grad()
    verdict = _judge(model.discriminator(real), 1.0) + _judge(model.discriminator(fake), 0.0)
    verdict.backward()
    model.optimizer[0].step()
    return _judge(model.discriminator(fake), 1.0)


def faces_from_codes():
    model = _Faces()
    optimizer = torch.optim.Adam(model.generator.parameters(), lr=2e-4)
    return {
        "model": model,
        "batch": torch.randn(16, 64),
        "loss": _faces_loss,
        "optimizer": optimizer,
    }


class _Detector(nn.Module):
    def __init__(self, kinds=4):
        super().__init__()
        self.kinds = kinds
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.ReLU())
        self.kind = nn.Conv2d(16, kinds, 1)
        self.box = nn.Conv2d(16, 4, 1)

    def forward(self, images):
        h = self.stem(images)
        return self.kind(h).flatten(2).transpose(1, 2), self.box(h).flatten(2).transpose(1, 2)


def _detector_loss(model, batch):
    images, kinds, boxes = batch
    logits, offsets = model(images)
    truth = F.one_hot(kinds, model.kinds).float()
    prob = logits.float().sigmoid()
    right = prob * truth + (1 - prob) * (1 - truth)
    entropy = F.binary_cross_entropy_with_logits(logits.float(), truth, reduction="none")
    found = kinds < model.kinds
    focal = ((1 - right).pow(2) * entropy).sum() / found.sum().clamp(min=1)
    return focal + F.smooth_l1_loss(offsets.float()[found], boxes[found])


def signs_at_the_road():
    kinds = torch.full((2, 64), 4)
    kinds[0, 5], kinds[0, 40], kinds[1, 21] = 0, 2, 3
    batch = torch.randn(2, 3, 16, 16), kinds, torch.randn(2, 64, 4)
    return {"model": _Detector(), "batch": batch, "loss": _detector_loss}


class _Messages(nn.Module):
    def __init__(self, features=6, width=16):
        super().__init__()
        self.inputs = nn.Linear(features, width)
        self.message = nn.Linear(width, width)
        self.state = nn.GRUCell(width, width)
        self.head = nn.Linear(width, 1)

    def forward(self, x, edges, graph):
        h = self.inputs(x).float()
        for _ in range(2):
            sent = self.message(h)[edges[0]].float()
            received = torch.zeros_like(h).index_add(0, edges[1], sent)
            h = self.state(received, h).float()
        pooled = torch.zeros(int(graph.max()) + 1, h.shape[1]).index_add(0, graph, h)
        return self.head(pooled).squeeze(-1)


def _merge(samples):
    x, edges, graph, offset = [], [], [], 0
    for index, sample in enumerate(samples):
        x.append(sample["x"])
        edges.append(sample["edges"] + offset)
        graph.append(torch.full((len(sample["x"]),), index))
        offset += sample["edges"].shape[1]
    batch = {"x": torch.cat(x), "edges": torch.cat(edges, dim=1), "graph": torch.cat(graph)}
    return batch, torch.stack([sample["y"] for sample in samples])


def _messages_loss(model, batch):
    graphs, y = batch
    return F.mse_loss(model(**graphs).float(), y)


def solubility():
    samples = [
        {
            "x": torch.randn(nodes, 6),
            "edges": torch.randint(0, nodes, (2, 3 * nodes)),
            "y": torch.randn(()),
        }
        for nodes in (5, 8, 6, 7)
    ]
    loader = torch.utils.data.DataLoader(samples, batch_size=4, collate_fn=_merge)
    return {"model": _Messages(), "batch": loader, "loss": _messages_loss}

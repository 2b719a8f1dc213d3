"""Models of several groups that train as their authors mean them to."""

import copy
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm
from torch.utils.checkpoint import checkpoint


class _Duel(nn.Module):
    def __init__(self, codes=8):
        super().__init__()
        self.codes = codes
        self.generator = nn.Sequential(nn.Linear(codes, 32), nn.ReLU(), nn.Linear(32, 36))
        self.critic = nn.Sequential(
            spectral_norm(nn.Linear(36, 32)), nn.LeakyReLU(0.2), nn.Linear(32, 1, bias=False)
        )


def _duel_loss(model, real):
    fake = model.generator(torch.randn(len(real), model.codes)).float()
    share = torch.rand(len(real), 1)
    mixed = (share * real + (1 - share) * fake.detach()).requires_grad_(True)
    (slope,) = torch.autograd.grad(model.critic(mixed).sum(), mixed, create_graph=True)
    penalty = ((slope.float().pow(2).sum(1) + 1e-12).sqrt() - 1).pow(2).mean()
    critic = model.critic(fake.detach()).float().mean() - model.critic(real).float().mean()
    frozen = {name: value.detach() for name, value in model.critic.named_parameters()}
    generator = -torch.func.functional_call(model.critic, frozen, (fake,)).float().mean()
    return critic + 10 * penalty + generator


def two_sides_in_one_loss():
    model = _Duel()
    groups = [
        {"params": model.generator.parameters(), "lr": 1e-4},
        {"params": model.critic.parameters(), "lr": 4e-4},
    ]
    return {
        "model": model,
        "batch": torch.randn(16, 36),
        "loss": _duel_loss,
        "optimizer": torch.optim.Adam(groups, betas=(0.0, 0.9)),
    }


class _Twin(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.online = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(32, width),
        )
        self.slow = copy.deepcopy(self.online).requires_grad_(False)
        self.predict = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, width))

    @torch.no_grad()
    def follow(self, keep=0.99):
        for slow, fast in zip(self.slow.parameters(), self.online.parameters(), strict=True):
            slow.lerp_(fast, 1 - keep)

    def forward(self, left, right):
        self.follow()
        total = 0.0
        for one, two in ((left, right), (right, left)):
            with torch.no_grad():
                aim = F.normalize(self.slow(two).float(), dim=-1)
            guess = F.normalize(self.predict(self.online(one)).float(), dim=-1)
            total = total + (2 - 2 * (guess * aim).sum(-1)).mean()
        return total


def views_of_the_same_leaf():
    return _Twin(), (torch.randn(8, 3, 16, 16), torch.randn(8, 3, 16, 16))


class _Half(nn.Module):
    def __init__(self, channels, swapped):
        super().__init__()
        mask = torch.arange(channels) % 2 == int(swapped)
        self.register_buffer("mask", mask.float())
        self.net = nn.Sequential(nn.Linear(channels, 32), nn.SiLU(), nn.Linear(32, 2 * channels))
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x):
        scale, shift = self.net(x * self.mask).float().chunk(2, dim=-1)
        scale = torch.tanh(scale) * (1 - self.mask)
        return x * scale.exp() + shift * (1 - self.mask), scale.sum(-1)


class _Flow(nn.Module):
    def __init__(self, channels=6, depth=4):
        super().__init__()
        self.layers = nn.ModuleList(_Half(channels, index % 2) for index in range(depth))

    def forward(self, x):
        log_det = x.new_zeros(len(x))
        for layer in self.layers:
            x, change = layer(x)
            log_det = log_det + change
        return (0.5 * (x.pow(2) + math.log(2 * math.pi)).sum(-1) - log_det).mean()


def density_from_an_identity():
    return _Flow(), torch.randn(32, 6) @ torch.randn(6, 6)


class _Oscillator(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)
        )
        self.log_damping = nn.Parameter(torch.tensor(-2.0))

    def forward(self, t):
        return self.net(t).float()


def _oscillator_loss(model, batch):
    t, seen_t, seen = batch
    t = t.detach().requires_grad_(True)
    u = model(t)
    first = torch.autograd.grad(u, t, torch.ones_like(u), create_graph=True)[0]
    second = torch.autograd.grad(first, t, torch.ones_like(first), create_graph=True)[0]
    residual = second + model.log_damping.exp() * first + 4.0 * u
    return 1e-2 * residual.pow(2).mean() + F.mse_loss(model(seen_t), seen)


def a_damped_spring():
    seen = torch.linspace(0, 1, 10)[:, None]
    batch = torch.rand(64, 1) * 3, seen, torch.exp(-0.1 * seen) * torch.cos(2 * seen)
    return {"model": _Oscillator(), "batch": batch, "loss": _oscillator_loss}


class _TopTwo(nn.Module):
    def __init__(self, width=16, experts=4):
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, 32) * 0.1)
        self.down = nn.Parameter(torch.randn(experts, 32, width) * 0.1)

    def forward(self, x):
        share = self.router(x).float().softmax(-1)
        top, choice = share.topk(2, dim=-1)
        top = top / top.sum(-1, keepdim=True)
        gates = torch.zeros_like(share).scatter(1, choice, top)
        out = torch.einsum(
            "neh,ehw->new", F.gelu(torch.einsum("nw,ewh->neh", x, self.up)), self.down
        )
        load = (gates > 0).float().mean(0)
        balance = share.shape[1] * (load * share.mean(0)).sum()
        return (gates[:, :, None] * out.float()).sum(1), balance


class _Ratings(nn.Module):
    def __init__(self):
        super().__init__()
        self.users = nn.Embedding(20, 16)
        self.items = nn.Embedding(30, 16)
        self.mixture = _TopTwo()
        self.head = nn.Linear(16, 1)

    def forward(self, user, item, stars):
        h = self.users(user) * 0.5 + self.items(item) * 0.5
        out, balance = self.mixture(h)
        error = F.mse_loss(self.head(h + out).squeeze(-1).float(), stars)
        return error + 0.01 * balance


def ratings_with_specialists():
    batch = torch.randint(0, 20, (128,)), torch.randint(0, 30, (128,)), torch.rand(128) * 4
    return _Ratings(), batch


class _Control(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, padding=1)
        self.body = nn.Sequential(nn.SiLU(), nn.Conv2d(width, width, 3, padding=1))
        self.outputs = nn.Conv2d(width, 1, 3, padding=1)
        for part in (self.stem, self.body, self.outputs):
            part.requires_grad_(False)
        self.hint = nn.Conv2d(1, width, 3, padding=1)
        self.copied = copy.deepcopy(self.body).requires_grad_(True)
        self.joint = nn.Conv2d(width, width, 1)
        nn.init.zeros_(self.joint.weight)
        nn.init.zeros_(self.joint.bias)

    def forward(self, noisy, hint):
        h = self.stem(noisy)
        side = self.joint(self.copied(h + self.hint(hint)))
        return self.outputs(self.body(h) + side)


def _control_loss(model, batch):
    noisy, hint, noise = batch
    return F.mse_loss(model(noisy, hint).float(), noise)


def edges_as_a_hint():
    model = _Control()
    trained = [p for p in model.parameters() if p.requires_grad]
    return {
        "model": model,
        "batch": tuple(torch.randn(3, 4, 1, 16, 16)),
        "loss": _control_loss,
        "optimizer": torch.optim.AdamW(trained, lr=1e-3),
    }


class _Nearest(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z, book):
        choice = torch.cdist(z, book).argmin(1)
        ctx.mark_non_differentiable(choice)
        return book[choice], choice

    @staticmethod
    def backward(ctx, grad, _):
        return grad, None


class _Discrete(nn.Module):
    def __init__(self, codes=16, width=6):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, width))
        self.decoder = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, 20))
        self.register_buffer("book", torch.randn(codes, width))

    @torch.no_grad()
    def learn(self, z, choice, keep=0.9):
        used = F.one_hot(choice, len(self.book)).float()
        count = used.sum(0)[:, None]
        mean = used.t() @ z.float() / count.clamp(min=1)
        self.book.copy_(torch.where(count > 0, keep * self.book + (1 - keep) * mean, self.book))

    def forward(self, x):
        z = self.encoder(x).float()
        code, choice = _Nearest.apply(z, self.book)
        loss = F.mse_loss(self.decoder(code).float(), x) + 0.25 * F.mse_loss(z, code.detach())
        self.learn(z.detach(), choice)
        return loss


def codes_of_spectra():
    return _Discrete(), torch.randn(32, 20)


class _Prototypes(nn.Module):
    def __init__(self, features=24, prototypes=12):
        super().__init__()
        body = [nn.Linear(features, 32), nn.GELU(), nn.Linear(32, 16)]
        self.body = nn.Sequential(*body)
        self.last = weight_norm(nn.Linear(16, prototypes, bias=False))
        length = self.last.parametrizations.weight.original0
        length.data.fill_(1.0)
        length.requires_grad_(False)

    def forward(self, x):
        return self.last(F.normalize(self.body(x).float(), dim=-1)).float()


class _Distilled(nn.Module):
    def __init__(self):
        super().__init__()
        self.student = _Prototypes()
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)
        self.register_buffer("center", torch.zeros(12))

    def forward(self, wide, narrow):
        with torch.no_grad():
            target = self.teacher(wide)
            sharp = ((target - self.center) / 0.04).softmax(-1)
            self.center.lerp_(target.mean(0), 0.1)
            pairs = zip(self.teacher.parameters(), self.student.parameters(), strict=True)
            for slow, fast in pairs:
                slow.lerp_(fast, 0.004)
        return -(sharp * (self.student(narrow) / 0.1).log_softmax(-1)).sum(-1).mean()


def prototypes_of_spectra():
    model = _Distilled()
    trained = [p for p in model.parameters() if p.requires_grad]
    x = torch.randn(32, 24)
    return {
        "model": model,
        "batch": (x, x + 0.1 * torch.randn(32, 24)),
        "optimizer": torch.optim.AdamW(trained, lr=1e-3),
        "max_grad_norm": 3.0,
    }


class _Ladder(nn.Module):
    def __init__(self, classes=4, width=16):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.GroupNorm(4, width),
                nn.ReLU(inplace=True),
                nn.Conv2d(width, width, 3, padding=1),
                nn.Dropout2d(0.1),
            )
            for _ in range(4)
        )
        self.gains = nn.Parameter(torch.full((4,), 1e-4))
        self.head = nn.Conv2d(width, classes, 1)
        nn.init.constant_(self.head.bias, -4.6)

    def forward(self, image):
        h = self.stem(image)
        for gain, block in zip(self.gains, self.blocks, strict=True):
            h = h + gain * checkpoint(block, h, use_reentrant=False)
        return self.head(h)


def _ladder_loss(model, batch):
    image, mask = batch
    return F.cross_entropy(model(image).float(), mask, ignore_index=255)


def fields_with_unlabelled_tiles():
    mask = torch.randint(0, 4, (4, 16, 16))
    mask[0] = 255
    mask[1:, :, 12:] = 255
    image = torch.randn(4, 3, 16, 16).to(memory_format=torch.channels_last)
    model = _Ladder().to(memory_format=torch.channels_last)
    return {"model": model, "batch": (image, mask), "loss": _ladder_loss}


class _Meta(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 1))


def _meta_error(params, net, x, y):
    return F.mse_loss(torch.func.functional_call(net, params, (x,)).float(), y)


def _meta_loss(model, batch):
    def task(x, y, query_x, query_y):
        params = dict(model.net.named_parameters())
        grads = torch.func.grad(_meta_error)(params, model.net, x, y)
        params = {name: value - 0.05 * grads[name] for name, value in params.items()}
        return _meta_error(params, model.net, query_x, query_y)

    return torch.func.vmap(task)(*batch).mean()


def tasks_side_by_side():
    phase = torch.rand(5, 1, 1) * math.pi
    x, query = torch.rand(2, 5, 10, 1) * 6 - 3
    batch = x, torch.sin(x + phase), query, torch.sin(query + phase)
    return {"model": _Meta(), "batch": batch, "loss": _meta_loss}


class _Crowd(nn.Module):
    def __init__(self, members=4):
        super().__init__()
        nets = [
            nn.Sequential(nn.Linear(9, 24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, 1))
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
        return torch.func.vmap(one, in_dims=(0, None), randomness="different")(params, x)


def _crowd_loss(model, batch):
    x, y = batch
    return (model(x).squeeze(-1).float() - y).pow(2).mean()


def many_small_regressors():
    batch = torch.randn(32, 9), torch.randn(32)
    return {"model": _Crowd(), "batch": batch, "loss": _crowd_loss}


class _Attending(nn.Module):
    def __init__(self, features=8, width=16):
        super().__init__()
        self.inputs = nn.Linear(features, width)
        self.score = nn.Linear(2 * width, 1, bias=False)
        self.value = nn.Linear(width, width)
        self.head = nn.Linear(width, 1)
        nn.init.zeros_(self.head.weight)

    def forward(self, x, edges, graph):
        h = self.inputs(x).float()
        source, target = edges
        score = self.score(torch.cat([h[source], h[target]], dim=-1)).float().squeeze(-1)
        score = F.leaky_relu(score, 0.2)
        top = torch.full((len(h),), -torch.inf).scatter_reduce(
            0, target, score.detach(), "amax", include_self=True
        )
        weight = (score - top[target]).exp()
        total = torch.zeros(len(h)).index_add(0, target, weight)
        weight = weight / total[target]
        h = h + torch.zeros_like(h).index_add(
            0, target, weight[:, None] * self.value(h[source]).float()
        )
        pooled = torch.zeros(3, h.shape[1]).index_add(0, graph, F.silu(h))
        count = torch.zeros(3).index_add(0, graph, torch.ones(len(h)))
        return self.head(pooled / count.clamp(min=1)[:, None]).squeeze(-1)


def _attending_loss(model, batch):
    graphs, y, measured = batch
    error = (model(**graphs).float() - y.nan_to_num()).pow(2)
    return (error * measured).sum() / measured.sum()


def molecules_with_lone_atoms():
    edges = torch.randint(0, 8, (2, 30))
    edges = torch.cat([edges, torch.randint(8, 14, (2, 12))], dim=1)
    graphs = {
        "x": torch.randn(16, 8),
        "edges": edges,
        "graph": torch.tensor([0] * 8 + [1] * 6 + [2] * 2),
    }
    y = torch.tensor([0.3, -1.2, float("nan")])
    batch = graphs, y, torch.isfinite(y)
    return {"model": _Attending(), "batch": batch, "loss": _attending_loss}

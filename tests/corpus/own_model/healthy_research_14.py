"""Trainings of generative, self-supervised, physical and reinforcement-learning models."""

import copy
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm


class CriticAndSource(nn.Module):
    def __init__(self, normed=False):
        super().__init__()
        norm = spectral_norm if normed else (lambda layer: layer)
        self.source = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
        self.source.requires_grad_(False)
        self.critic = nn.Sequential(
            norm(nn.Linear(2, 64)),
            nn.LeakyReLU(0.2),
            norm(nn.Linear(64, 64)),
            nn.LeakyReLU(0.2),
            norm(nn.Linear(64, 1, bias=False)),
        )


def critic_with_a_penalty():
    model = CriticAndSource()

    def loss(model, real):
        fake = model.source(torch.randn(len(real), 8, device=real.device)).to(real)
        share = torch.rand(len(real), 1, device=real.device)
        between = (share * real + (1 - share) * fake).requires_grad_()
        out = model.critic(between)
        (slope,) = torch.autograd.grad(out.sum(), between, create_graph=True)
        penalty = (slope.norm(2, dim=1) - 1).square().mean()
        return model.critic(fake).mean() - model.critic(real).mean() + 10 * penalty

    return {
        "model": model,
        "batch": torch.randn(64, 2) * 0.1 + 1,
        "loss": loss,
        "optimizer": torch.optim.Adam(model.critic.parameters(), lr=1e-4, betas=(0.0, 0.9)),
    }


def critic_with_hinge_and_slope():
    model = CriticAndSource(normed=True)

    def loss(model, real):
        fake = model.source(torch.randn(len(real), 8, device=real.device)).detach().to(real)
        real = real.detach().requires_grad_()
        right, wrong = model.critic(real).float(), model.critic(fake).float()
        (slope,) = torch.autograd.grad(right.sum(), real, create_graph=True)
        hinge = F.relu(1 - right).mean() + F.relu(1 + wrong).mean()
        return hinge + 5 * slope.square().sum(1).mean()

    return model, torch.randn(63, 2) + 2, loss


class Modulated(nn.Module):
    def __init__(self, inputs, outputs, style):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, inputs, 3, 3))
        self.scale = nn.Linear(style, inputs)
        self.noise = nn.Parameter(torch.zeros(()))
        self.bias = nn.Parameter(torch.zeros(outputs))
        nn.init.ones_(self.scale.bias)

    def forward(self, x, style):
        count, channels, height, width = x.shape
        weight = self.weight * self.scale(style)[:, None, :, None, None] / math.sqrt(9 * channels)
        weight = weight * (weight.square().sum((2, 3, 4), keepdim=True) + 1e-8).rsqrt()
        x = x.reshape(1, -1, height, width)
        x = F.conv2d(x, weight.flatten(0, 1).to(x.dtype), padding=1, groups=count)
        x = x.view(count, -1, height, width)
        noise = torch.randn(count, 1, height, width, device=x.device)
        return F.leaky_relu(x + self.noise * noise + self.bias[:, None, None], 0.2) * math.sqrt(2)


class StyleSource(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.mapping = nn.Sequential(
            nn.Linear(16, width), nn.LeakyReLU(0.2), nn.Linear(width, width)
        )
        self.constant = nn.Parameter(torch.randn(1, width, 4, 4))
        self.first = Modulated(width, width, width)
        self.second = Modulated(width, width, width)
        self.image = nn.Conv2d(width, 3, 1)
        self.critic = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(256, 1)
        ).requires_grad_(False)

    def forward(self, z):
        style = self.mapping(z * (z.square().mean(1, keepdim=True) + 1e-8).rsqrt())
        x = self.first(self.constant.expand(len(z), -1, -1, -1), style)
        x = self.second(F.interpolate(x, scale_factor=2), style)
        return F.softplus(-self.critic(self.image(x))).mean()


def generator_with_styles():
    model = StyleSource()
    rates = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(rates, lr=2e-3, betas=(0.0, 0.99))
    return {"model": model, "batch": torch.randn(8, 16), "optimizer": optimizer}


class Queue(nn.Module):
    def __init__(self, width=16, size=64):
        super().__init__()
        self.query = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, width))
        self.key = copy.deepcopy(self.query).requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(size, width), dim=1))
        self.register_buffer("place", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def keys(self, x):
        for slow, fast in zip(self.key.parameters(), self.query.parameters(), strict=True):
            slow.mul_(0.99).add_(fast, alpha=0.01)
        return F.normalize(self.key(x).float(), dim=1)

    def forward(self, one, two):
        q = F.normalize(self.query(one).float(), dim=1)
        k = self.keys(two)
        right = (q * k).sum(1, keepdim=True)
        wrong = q @ self.queue.clone().T
        logits = torch.cat([right, wrong], 1) / 0.07
        start = int(self.place)
        with torch.no_grad():
            self.queue[start : start + len(k)] = k
            self.place.fill_((start + len(k)) % len(self.queue))
        return F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long, device=q.device))


def contrast_against_a_queue():
    x = torch.randn(16, 20)
    batch = {"one": x + 0.1 * torch.randn_like(x), "two": x + 0.1 * torch.randn_like(x)}
    model = Queue()
    optimizer = torch.optim.SGD(model.query.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-4)
    return {"model": model, "batch": batch, "optimizer": optimizer}


class Siamese(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(24, width, bias=False),
            nn.BatchNorm1d(width),
            nn.ReLU(),
            nn.Linear(width, width, bias=False),
            nn.BatchNorm1d(width, affine=False),
        )
        self.predictor = nn.Sequential(
            nn.Linear(width, 8, bias=False),
            nn.BatchNorm1d(8),
            nn.ReLU(),
            nn.Linear(8, width),
        )

    def forward(self, one, two):
        a, b = self.encoder(one), self.encoder(two)
        p, q = self.predictor(a), self.predictor(b)
        first = F.cosine_similarity(p.float(), b.detach().float(), dim=1)
        second = F.cosine_similarity(q.float(), a.detach().float(), dim=1)
        return -(first.mean() + second.mean()) / 2


def siamese_with_a_stopped_side():
    x = torch.randn(32, 24)
    batch = (x + 0.2 * torch.randn_like(x), x * (torch.rand_like(x) > 0.2))
    model = Siamese()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
    return {"model": model, "batch": batch, "optimizer": optimizer, "scheduler": scheduler}


def views_without_redundancy():
    class Views(nn.Module):
        def __init__(self, width=24):
            super().__init__()
            self.net = nn.Sequential(
                nn.Linear(20, 48), nn.LayerNorm(48), nn.GELU(), nn.Linear(48, width, bias=False)
            )

        def forward(self, one, two):
            a, b = self.net(one).float(), self.net(two).float()
            loss = 25 * F.mse_loss(a, b)
            for z in (a, b):
                z = z - z.mean(0)
                spread = (z.var(0) + 1e-4).sqrt()
                shared = z.T @ z / (len(z) - 1)
                off = shared - torch.diag(shared.diagonal())
                loss = loss + 12.5 * F.relu(1 - spread).mean() + off.square().sum() / z.shape[1]
            return loss

    x = torch.randn(40, 20)
    return Views(), (x + 0.05 * torch.randn_like(x), x + 0.05 * torch.randn_like(x))


class Prototypes(nn.Module):
    def __init__(self, width=16, count=48):
        super().__init__()
        self.student = nn.ModuleList(
            [nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.Linear(32, width)), None]
        )
        last = weight_norm(nn.Linear(width, count, bias=False))
        last.parametrizations.weight.original0.data.fill_(1)
        self.teacher = nn.ModuleList(
            [copy.deepcopy(self.student[0]), nn.Linear(width, count, bias=False)]
        ).requires_grad_(False)
        self.teacher[1].weight.copy_(last.weight.detach())
        last.parametrizations.weight.original0.requires_grad_(False)
        self.student[1] = last
        self.register_buffer("center", torch.zeros(count))

    def scores(self, parts, x):
        return parts[1](F.normalize(parts[0](x).float(), dim=-1)).float()

    def forward(self, one, two):
        with torch.no_grad():
            raw = self.scores(self.teacher, one)
            target = ((raw - self.center) / 0.04).softmax(-1)
            self.center.lerp_(raw.mean(0), 0.1)
            for slow, fast in zip(
                self.teacher[0].parameters(), self.student[0].parameters(), strict=True
            ):
                slow.lerp_(fast, 0.004)
            self.teacher[1].weight.lerp_(self.student[1].weight, 0.004)
        logs = (self.scores(self.student, two) / 0.1).log_softmax(-1)
        return -(target * logs).sum(-1).mean()


def prototypes_of_a_slow_teacher():
    x = torch.randn(24, 12)
    model = Prototypes()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3, weight_decay=0.04)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, step / 10))
    return {
        "model": model,
        "batch": (x, x + 0.1 * torch.randn_like(x)),
        "optimizer": optimizer,
        "scheduler": scheduler,
        "max_grad_norm": 3.0,
    }


class Codes(nn.Module):
    def __init__(self, count=32, width=8):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv1d(1, 16, 4, 2, 1), nn.ReLU(), nn.Conv1d(16, width, 1))
        self.decoder = nn.Sequential(
            nn.ConvTranspose1d(width, 16, 4, 2, 1), nn.ReLU(), nn.Conv1d(16, 1, 1)
        )
        self.register_buffer("codes", torch.randn(count, width))
        self.register_buffer("counts", torch.ones(count))
        self.register_buffer("sums", self.codes.clone())

    @torch.no_grad()
    def learn(self, flat, nearest):
        chosen = F.one_hot(nearest, len(self.codes)).to(flat)
        self.counts.lerp_(chosen.sum(0), 0.01)
        self.sums.lerp_((chosen.T @ flat).float(), 0.01)
        self.codes.copy_(self.sums / self.counts.clamp(min=1e-5)[:, None])

    def forward(self, wave):
        z = self.encoder(wave).float().transpose(1, 2)
        flat = z.flatten(0, 1)
        nearest = torch.cdist(flat.detach(), self.codes).argmin(1)
        quantized = self.codes[nearest].view_as(z)
        if self.training:
            self.learn(flat.detach(), nearest)
        through = z + (quantized - z).detach()
        rebuilt = self.decoder(through.transpose(1, 2))
        return F.l1_loss(rebuilt, wave) + 0.25 * F.mse_loss(z, quantized)


def codes_learned_by_averages():
    return Codes(), torch.randn(8, 1, 64).cumsum(-1) / 8


class Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x >= 0, 1.0, -1.0).to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.abs() <= 1)


class BinaryLinear(nn.Linear):
    def forward(self, x):
        scale = self.weight.abs().mean(1, keepdim=True).detach()
        return F.linear(Sign.apply(x), Sign.apply(self.weight) * scale, self.bias)


def binary_network():
    model = nn.Sequential(
        nn.Linear(16, 64),
        nn.BatchNorm1d(64),
        BinaryLinear(64, 64, bias=False),
        nn.BatchNorm1d(64),
        BinaryLinear(64, 64, bias=False),
        nn.BatchNorm1d(64),
        nn.Linear(64, 5),
    )
    return model, (torch.randn(48, 16), torch.randint(0, 5, (48,))), F.cross_entropy


class LearnedStep(nn.Module):
    """Four bits, with a step size that is learned."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        spread = 2 * self.linear.weight.detach().abs().mean() / math.sqrt(7)
        self.step = nn.Parameter(spread)

    def forward(self, x):
        weight = self.linear.weight
        factor = 1 / math.sqrt(weight.numel() * 7)
        step = (self.step * factor) + (self.step - self.step * factor).detach()
        level = (weight / step).clamp(-8, 7)
        level = level + (level.round() - level).detach()
        return F.linear(x, level * step, self.linear.bias)


def four_bits_with_a_learned_step():
    model = nn.Sequential(
        LearnedStep(12, 32), nn.BatchNorm1d(32), nn.ReLU6(), LearnedStep(32, 32), nn.ReLU6()
    )
    model.append(nn.Linear(32, 3))
    batch = {"x": torch.randn(40, 12), "y": torch.randint(0, 3, (40,))}
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return {
        "model": model,
        "batch": batch,
        "loss": lambda m, b: F.cross_entropy(m(b["x"]), b["y"]),
        "optimizer": optimizer,
    }


class Agent(nn.Module):
    def __init__(self, observations=6, actions=4):
        super().__init__()
        self.policy = nn.Sequential(
            nn.Linear(observations, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh()
        )
        self.logits = nn.Linear(32, actions)
        self.value = nn.Sequential(nn.Linear(observations, 32), nn.Tanh(), nn.Linear(32, 1))
        for layer in self.policy:
            if isinstance(layer, nn.Linear):
                nn.init.orthogonal_(layer.weight, math.sqrt(2))
                nn.init.zeros_(layer.bias)
        nn.init.orthogonal_(self.logits.weight, 0.01)
        nn.init.zeros_(self.logits.bias)

    def forward(self, x):
        return self.logits(self.policy(x)).float(), self.value(x).float().squeeze(-1)


def policy_and_value_from_a_rollout():
    agent = Agent()
    x = torch.randn(128, 6)
    with torch.no_grad():
        logits, values = agent(x)
        before = torch.distributions.Categorical(logits=logits)
        actions = before.sample()
        old = before.log_prob(actions)
        returns = values + torch.randn(128)
    batch = {"x": x, "actions": actions, "old": old, "returns": returns, "values": values}

    def loss(agent, b):
        logits, values = agent(b["x"])
        now = torch.distributions.Categorical(logits=logits)
        ratio = (now.log_prob(b["actions"]) - b["old"]).exp()
        advantage = b["returns"] - b["values"]
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        policy = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
        near = b["values"] + (values - b["values"]).clamp(-0.2, 0.2)
        value = torch.max((values - b["returns"]) ** 2, (near - b["returns"]) ** 2).mean()
        return policy + 0.25 * value - 0.01 * now.entropy().mean()

    return {
        "model": agent,
        "batch": batch,
        "loss": loss,
        "optimizer": torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5),
        "max_grad_norm": 0.5,
    }


def completions_in_groups():
    class Writer(nn.Module):
        def __init__(self, words=30, width=24):
            super().__init__()
            self.embed = nn.Embedding(words, width)
            self.rnn = nn.GRU(width, width, batch_first=True)
            self.out = nn.Linear(width, words)

        def forward(self, tokens):
            logs = self.out(self.rnn(self.embed(tokens[:, :-1]))[0]).float().log_softmax(-1)
            return logs.gather(-1, tokens[:, 1:, None]).squeeze(-1)

    model = Writer()
    reference = copy.deepcopy(model).requires_grad_(False)
    tokens = torch.randint(0, 30, (16, 12))
    lengths = torch.randint(4, 12, (16, 1))
    mask = (torch.arange(11) < lengths).float()
    reward = (tokens == 7).float().sum(1) + torch.arange(16) % 4
    group = reward.view(4, 4)
    advantage = ((group - group.mean(1, keepdim=True)) / (group.std(1, keepdim=True) + 1e-4)).view(
        -1
    )

    def loss(model, batch):
        tokens, mask, advantage = batch
        logs = model(tokens)
        with torch.no_grad():
            fixed = reference.to(tokens.device)(tokens)
        ratio = (logs - logs.detach()).exp()
        distance = (fixed - logs).exp() - (fixed - logs) - 1
        each = -(ratio * advantage[:, None]) + 0.04 * distance
        return ((each * mask).sum(1) / mask.sum(1)).mean()

    return model, (tokens, mask, advantage), loss


class SoftActor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 32), nn.ReLU())
        self.mean, self.spread = nn.Linear(32, 2), nn.Linear(32, 2)
        self.temperature = nn.Parameter(torch.zeros(()))
        self.judges = nn.ModuleList(
            nn.Sequential(nn.Linear(7, 32), nn.ReLU(), nn.Linear(32, 1)) for _ in range(2)
        ).requires_grad_(False)

    def forward(self, state):
        h = self.body(state)
        spread = self.spread(h).float().clamp(-5, 2).exp()
        draw = torch.distributions.Normal(self.mean(h).float(), spread).rsample()
        normal = torch.distributions.Normal(self.mean(h).float(), spread)
        shrink = 2 * (math.log(2) - draw - F.softplus(-2 * draw))
        logs = (normal.log_prob(draw) - shrink).sum(-1)
        both = torch.cat([state, draw.tanh()], -1)
        worth = torch.min(*(judge(both) for judge in self.judges)).squeeze(-1)
        alpha = self.temperature.exp()
        tuned = -(self.temperature * (logs.detach() - 2)).mean()
        return (alpha.detach() * logs - worth).mean() + tuned


def soft_actor_with_two_judges():
    return SoftActor(), torch.randn(64, 5)


class Coupling(nn.Module):
    def __init__(self, width, flip):
        super().__init__()
        self.flip, self.half = flip, width // 2
        self.net = nn.Sequential(nn.Linear(self.half, 32), nn.ReLU(), nn.Linear(32, width))
        self.gain = nn.Parameter(torch.zeros(self.half))
        nn.init.zeros_(self.net[-1].weight)
        nn.init.zeros_(self.net[-1].bias)

    def forward(self, x):
        a, b = x.chunk(2, -1)
        if self.flip:
            a, b = b, a
        shift, log_scale = self.net(a).float().chunk(2, -1)
        log_scale = torch.tanh(log_scale) * self.gain.exp()
        b = b * log_scale.exp() + shift
        return torch.cat((b, a) if self.flip else (a, b), -1), log_scale.sum(-1)


class Flow(nn.Module):
    def __init__(self, width=6, depth=6):
        super().__init__()
        self.steps = nn.ModuleList(Coupling(width, i % 2 == 1) for i in range(depth))

    def forward(self, x):
        total = 0
        for step in self.steps:
            x, logdet = step(x)
            total = total + logdet
        return (0.5 * x.square().sum(-1) - total).mean()


def flow_that_begins_as_identity():
    return Flow(), torch.randn(64, 6) * torch.tensor([3, 0.1, 1, 2, 0.5, 0.01])


class FreeBits(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(30, 32), nn.ReLU())
        self.mean, self.log_var = nn.Linear(32, width), nn.Linear(32, width)
        self.decoder = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, 30))
        nn.init.zeros_(self.mean.weight)
        nn.init.zeros_(self.mean.bias)
        nn.init.zeros_(self.log_var.weight)
        nn.init.zeros_(self.log_var.bias)

    def forward(self, x):
        h = self.encoder(x)
        mean, log_var = self.mean(h).float(), self.log_var(h).float()
        z = mean + torch.exp(0.5 * log_var) * torch.randn_like(mean)
        kl = 0.5 * (mean**2 + log_var.exp() - 1 - log_var).mean(0)
        nll = F.mse_loss(self.decoder(z).float(), x, reduction="none").sum(-1).mean()
        return nll + kl.clamp(min=0.25).sum()


def free_bits():
    return FreeBits(), torch.randn(32, 30)


class GatedBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )
        self.condition = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))
        nn.init.zeros_(self.condition[1].weight)
        nn.init.zeros_(self.condition[1].bias)

    def attend(self, x):
        q, k, v = (t.unflatten(-1, (4, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        out = F.scaled_dot_product_attention(F.normalize(q, dim=-1), F.normalize(k, dim=-1), v)
        return self.out(out.transpose(1, 2).flatten(2))

    def forward(self, x, c):
        s1, b1, g1, s2, b2, g2 = self.condition(c)[:, None].chunk(6, -1)
        x = x + g1 * self.attend(self.norm(x) * (1 + s1) + b1)
        return x + g2 * self.mlp(self.norm(x) * (1 + s2) + b2)


class Denoiser(nn.Module):
    def __init__(self, width=32, depth=3, classes=4):
        super().__init__()
        self.inputs = nn.Linear(4, width)
        self.positions = nn.Parameter(0.02 * torch.randn(1, 16, width))
        self.time = nn.Sequential(nn.Linear(16, width), nn.SiLU(), nn.Linear(width, width))
        self.label = nn.Embedding(classes + 1, width)
        self.blocks = nn.ModuleList(GatedBlock(width) for _ in range(depth))
        self.out = nn.Linear(width, 4)
        nn.init.zeros_(self.out.bias)
        nn.init.normal_(self.out.weight, std=1e-3)

    def forward(self, x, t, label):
        angles = t[:, None] * 1000 * torch.exp(-torch.arange(8, device=t.device))
        c = self.time(torch.cat([angles.sin(), angles.cos()], -1)) + self.label(label)
        x = self.inputs(x) + self.positions
        for block in self.blocks:
            x = block(x, c)
        return self.out(x)


def denoiser_with_gates_and_free_guidance():
    def loss(model, batch):
        x, label = batch
        t = torch.rand(len(x), device=x.device)
        label = label.masked_fill(torch.rand(len(x), device=x.device) < 0.1, 4)
        alpha = torch.cos(t * math.pi / 2)[:, None, None]
        sigma = torch.sin(t * math.pi / 2)[:, None, None]
        noise = torch.randn_like(x)
        velocity = alpha * noise - sigma * x
        weight = (alpha / sigma.clamp(min=1e-2)).square().clamp(max=5)
        error = (model(alpha * x + sigma * noise, t, label).float() - velocity).square()
        return (weight * error).mean()

    model = Denoiser()
    return {
        "model": model,
        "batch": (torch.randn(16, 16, 4), torch.randint(0, 4, (16,))),
        "loss": loss,
        "optimizer": torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0),
    }


class Field(nn.Module):
    def __init__(self, width=48, octaves=5):
        super().__init__()
        self.register_buffer("scales", math.pi * 2.0 ** torch.arange(octaves))
        self.body = nn.Sequential(
            nn.Linear(6 * octaves, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
        )
        self.density = nn.Linear(width, 1)
        self.color = nn.Sequential(nn.Linear(width + 3, width), nn.ReLU(), nn.Linear(width, 3))

    def forward(self, origins, directions, pixels):
        depth = torch.linspace(0.5, 2.5, 24, device=origins.device)
        depth = depth + torch.rand(len(origins), 24, device=depth.device) * 2 / 24
        points = origins[:, None] + depth[..., None] * directions[:, None]
        angles = (points[..., None] * self.scales).flatten(-2)
        h = self.body(torch.cat([angles.sin(), angles.cos()], -1))
        sigma = F.softplus(self.density(h).float().squeeze(-1) - 1)
        view = directions[:, None].expand_as(points).to(h.dtype)
        color = torch.sigmoid(self.color(torch.cat([h, view], -1)).float())
        gaps = F.pad(depth.diff(dim=-1), (0, 1), value=1e10)
        alpha = 1 - torch.exp(-sigma * gaps)
        clear = F.pad(torch.cumprod(1 - alpha + 1e-10, -1)[:, :-1], (1, 0), value=1.0)
        weights = alpha * clear
        return F.mse_loss((weights[..., None] * color).sum(1), pixels)


def field_of_density_and_color():
    directions = F.normalize(torch.randn(64, 3), dim=-1)
    return Field(), (torch.zeros(64, 3), directions, torch.rand(64, 3))


class Dynamics(nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.field = nn.Sequential(nn.Linear(width + 1, 24), nn.Tanh(), nn.Linear(24, width))
        nn.init.normal_(self.field[-1].weight, std=1e-3)
        nn.init.zeros_(self.field[-1].bias)

    def slope(self, t, x):
        return self.field(F.pad(x, (0, 1), value=t)).to(x.dtype)

    def forward(self, x, steps=20):
        h, path = 1 / steps, [x]
        for i in range(steps):
            t = i * h
            a = self.slope(t, x)
            b = self.slope(t + h / 2, x + h / 2 * a)
            c = self.slope(t + h / 2, x + h / 2 * b)
            d = self.slope(t + h, x + h * c)
            x = x + h / 6 * (a + 2 * b + 2 * c + d)
            path.append(x)
        return torch.stack(path, 1)


def dynamics_by_runge_kutta():
    times = torch.linspace(0, 1, 21)[:, None]
    start = torch.randn(16, 3)
    path = start[:, None] * torch.exp(-times)
    return Dynamics(), (start, path), nn.SmoothL1Loss()


class RidgeHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16))
        self.log_penalty = nn.Parameter(torch.zeros(()))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x, y, x2, y2):
        a, b = self.net(x).float(), self.net(x2).float()
        with torch.autocast(x.device.type, enabled=False):
            gram = a @ a.transpose(1, 2)
            eye = torch.eye(gram.shape[-1], device=x.device)
            dual = torch.linalg.solve(gram + self.log_penalty.exp() * eye, F.one_hot(y, 3).float())
            logits = self.scale * (b @ (a.transpose(1, 2) @ dual))
        return F.cross_entropy(logits.flatten(0, 1), y2.flatten())


def ridge_solved_in_each_task():
    y, y2 = torch.arange(3).repeat(4, 5), torch.arange(3).repeat(4, 10)
    centers = torch.randn(4, 3, 8)
    x = centers.repeat(1, 5, 1) + 0.3 * torch.randn(4, 15, 8)
    x2 = centers.repeat(1, 10, 1) + 0.3 * torch.randn(4, 30, 8)
    return RidgeHead(), {"x": x, "y": y, "x2": x2, "y2": y2}


class Root(torch.autograd.Function):
    """The solution of x = tanh(a x + b) and its gradients at the solution."""

    @staticmethod
    def forward(ctx, a, b):
        x = torch.zeros_like(b)
        for _ in range(60):
            x = torch.tanh(a * x + b)
        ctx.save_for_backward(a, x)
        return x

    @staticmethod
    def backward(ctx, grad):
        a, x = ctx.saved_tensors
        slope = 1 - x**2
        through = grad * slope / (1 - a * slope)
        return through * x, through


class FixedPoint(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.inner = nn.Linear(10, 2 * width)
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        a, b = self.inner(x).float().chunk(2, -1)
        return self.out(Root.apply(0.9 * torch.tanh(a), b)).squeeze(-1)


def fixed_point_with_its_own_gradient():
    return FixedPoint(), (torch.randn(32, 10), torch.randn(32)), F.mse_loss


class Waves(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)
        )
        self.speed = nn.Parameter(torch.tensor(0.5))

    def forward(self, inside, edge, value):
        inside = inside.detach().requires_grad_()
        with torch.autocast(inside.device.type, enabled=False):
            u = self.net(inside)
            (first,) = torch.autograd.grad(u.sum(), inside, create_graph=True)
            (in_x,) = torch.autograd.grad(first[:, 0].sum(), inside, create_graph=True)
            (in_t,) = torch.autograd.grad(first[:, 1].sum(), inside, create_graph=True)
            residual = in_t[:, 1] - self.speed.square() * in_x[:, 0]
            return residual.square().mean() + 10 * F.mse_loss(self.net(edge), value)


def equation_of_waves():
    edge = torch.rand(40, 2)
    edge[:20, 1] = 0
    edge[20:, 0] = edge[20:, 0].round()
    value = torch.sin(math.pi * edge[:, :1]) * (edge[:, 1:] == 0)
    model = Waves()
    return {
        "model": model,
        "batch": {"inside": torch.rand(100, 2), "edge": edge, "value": value},
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }


class Energy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(2, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, 1, bias=False)
        )

    def forward(self, x):
        return self.net(x).float().squeeze(-1)


def energy_with_short_chains():
    def loss(model, real):
        chain = torch.randn_like(real)
        for _ in range(8):
            chain.requires_grad_()
            (slope,) = torch.autograd.grad(model(chain).sum(), chain)
            chain = (chain - 0.1 * slope + 0.05 * torch.randn_like(chain)).detach()
        up, down = model(real), model(chain)
        return up.mean() - down.mean() + 0.1 * (up.square() + down.square()).mean()

    model = Energy()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.0, 0.999))
    return {
        "model": model,
        "batch": torch.randn(64, 2) * 0.3 + 1,
        "loss": loss,
        "optimizer": optimizer,
    }


class Experts(nn.Module):
    def __init__(self, width=16, count=4):
        super().__init__()
        self.gate = nn.Linear(width, count, bias=False)
        self.up = nn.Parameter(torch.randn(count, width, 32) / 4)
        self.down = nn.Parameter(torch.randn(count, 32, width) / 6)
        nn.init.normal_(self.gate.weight, std=0.02)

    def forward(self, x):
        logits = self.gate(x).float()
        p = logits.softmax(-1)
        top, chosen = p.topk(2, -1)
        top = top / top.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        for i in range(len(self.up)):
            token, slot = torch.where(chosen == i)
            y = F.gelu(x[token] @ self.up[i]) @ self.down[i]
            out.index_add_(0, token, (y * top[token, slot, None]).to(out.dtype))
        load = F.one_hot(chosen, len(self.up)).float().mean((0, 1))
        balance = len(self.up) * (load * p.mean(0)).sum()
        return out, balance + 0.1 * logits.logsumexp(-1).square().mean()


def experts_with_a_balanced_load():
    class Mixture(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.experts, self.head = nn.RMSNorm(16), Experts(), nn.Linear(16, 6)

        def forward(self, x, y):
            out, extra = self.experts(self.norm(x))
            return {"task": F.cross_entropy(self.head(x + out), y), "balance": 0.01 * extra}

    return Mixture(), {"x": torch.randn(256, 16), "y": torch.randint(0, 6, (256,))}


class StateSpace(nn.Module):
    def __init__(self, width=12, states=8):
        super().__init__()
        self.log_decay = nn.Parameter(torch.full((width, states), math.log(0.5)))
        self.frequency = nn.Parameter(math.pi * torch.arange(states).float().repeat(width, 1))
        self.output = nn.Parameter(torch.randn(width, states, dtype=torch.cfloat))
        self.log_step = nn.Parameter(torch.rand(width) * 3 - 6)
        self.skip = nn.Parameter(torch.ones(width))
        self.mix = nn.Linear(width, 2 * width)

    def forward(self, x):
        length = x.shape[1]
        step = self.log_step.exp()[:, None]
        a = torch.complex(-self.log_decay.exp(), self.frequency)
        gain = self.output * (torch.exp(a * step) - 1) / a
        times = torch.arange(length, device=x.device)
        kernel = 2 * torch.einsum("ds,dst->dt", gain, torch.exp((a * step)[..., None] * times)).real
        signal = x.transpose(1, 2).float()
        spectrum = torch.fft.rfft(signal, n=2 * length) * torch.fft.rfft(kernel, n=2 * length)
        y = torch.fft.irfft(spectrum, n=2 * length)[..., :length] + self.skip[:, None] * signal
        return F.glu(self.mix(F.gelu(y.transpose(1, 2))), -1)


def long_signals_by_state_spaces():
    class Signals(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.head = nn.Linear(1, 12), nn.Linear(12, 4)
            self.layers = nn.ModuleList(StateSpace() for _ in range(2))

        def forward(self, x):
            x = self.up(x)
            for layer in self.layers:
                x = x + layer(x)
            return self.head(x.mean(1))

    model = Signals()
    slow = [p for n, p in model.named_parameters() if "log_" in n or "frequency" in n]
    fast = [p for n, p in model.named_parameters() if "log_" not in n and "frequency" not in n]
    optimizer = torch.optim.AdamW(
        [{"params": fast, "lr": 4e-3}, {"params": slow, "lr": 1e-3, "weight_decay": 0.0}]
    )
    batch = torch.randn(8, 128, 1), torch.randint(0, 4, (8,))
    return {"model": model, "batch": batch, "loss": nn.CrossEntropyLoss(), "optimizer": optimizer}


class EdgeAttention(nn.Module):
    def __init__(self, inputs, outputs, heads=2):
        super().__init__()
        self.lin = nn.Linear(inputs, heads * outputs, bias=False)
        self.of_source = nn.Parameter(torch.randn(heads, outputs) * 0.3)
        self.of_target = nn.Parameter(torch.randn(heads, outputs) * 0.3)
        self.shape = heads, outputs

    def forward(self, x, edges):
        source, target = edges
        h = self.lin(x).float().view(-1, *self.shape)
        score = (h * self.of_source).sum(-1)[source] + (h * self.of_target).sum(-1)[target]
        score = F.leaky_relu(score, 0.2)
        highest = torch.full((len(x), self.shape[0]), -math.inf, device=x.device)
        index = target[:, None].expand_as(score)
        highest = highest.scatter_reduce(0, index, score.detach(), "amax")
        weight = (score - highest[target]).exp()
        total = torch.zeros_like(highest).index_add(0, target, weight)
        weight = weight / total[target]
        message = h[source] * weight[..., None]
        return torch.zeros_like(h).index_add(0, target, message).flatten(1)


def citations_with_few_labels():
    class Graph(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = EdgeAttention(20, 8), EdgeAttention(16, 3)

        def forward(self, x, edges, y, known):
            x = F.elu(self.one(F.dropout(x, 0.2, self.training), edges))
            x = self.two(F.dropout(x, 0.2, self.training), edges)
            return F.cross_entropy(x.unflatten(1, (2, 3)).mean(1)[known], y[known])

    source, target = torch.randint(0, 60, (2, 150))
    known = torch.zeros(60, dtype=torch.bool)
    known[:12] = True
    model = Graph()
    return {
        "model": model,
        "batch": {
            "x": torch.randn(60, 20),
            "edges": torch.stack([source, target]),
            "y": torch.randint(0, 3, (60,)),
            "known": known,
        },
        "optimizer": torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=5e-4),
    }


class Slots(nn.Module):
    def __init__(self, slots=3, width=24):
        super().__init__()
        self.mean = nn.Parameter(torch.randn(1, 1, width) * 0.2)
        self.log_spread = nn.Parameter(torch.zeros(1, 1, width))
        self.inputs = nn.Sequential(nn.Linear(7, width), nn.LayerNorm(width))
        self.q, self.k, self.v = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.norm = nn.LayerNorm(width)
        self.cell = nn.GRUCell(width, width)
        self.out = nn.Linear(width, 5)
        self.count = slots

    def forward(self, points):
        x = self.inputs(points)
        k, v = self.k(x), self.v(x)
        noise = torch.randn(len(x), self.count, x.shape[-1], device=x.device)
        slots = self.mean + self.log_spread.exp() * noise
        for _ in range(3):
            scores = self.q(self.norm(slots)) @ k.transpose(1, 2) / math.sqrt(k.shape[-1])
            share = scores.float().softmax(1) + 1e-8
            share = share / share.sum(-1, keepdim=True)
            updates = share.to(v.dtype) @ v
            slots = self.cell(updates.flatten(0, 1), slots.flatten(0, 1).to(updates.dtype))
            slots = slots.view(len(x), self.count, -1)
        return self.out(slots)


def sets_matched_to_slots():
    def loss(model, batch):
        points, objects = batch
        cost = torch.cdist(model(points).float(), objects).square()
        plan = -cost.detach() / 0.5
        for _ in range(20):
            plan = plan - plan.logsumexp(1, keepdim=True)
            plan = plan - plan.logsumexp(2, keepdim=True)
        return (plan.exp() * cost).sum((1, 2)).mean()

    return Slots(), (torch.randn(8, 20, 7), torch.randn(8, 3, 5)), loss

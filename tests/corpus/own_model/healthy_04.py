"""Healthy trainings in which not every parameter gets a gradient in the first steps, or whose
batch or buffers hold values that are not finite on purpose. All were failed once.
"""

import torch
from blocks import four_classes, small_mlp
from torch import nn
from torch.nn import functional

CLASSES = 4


class Mixture(nn.Module):
    """More experts than tokens, one of them for each."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(16, 8)
        self.experts = nn.ModuleList(small_mlp(16, 16) for _ in range(8))
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x):
        weight, choice = self.router(x).softmax(-1).max(-1)
        mixed = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            chosen = choice == number
            if chosen.any():
                mixed[chosen] = (expert(x[chosen]) * weight[chosen, None]).to(mixed.dtype)
        return self.head(x + mixed)


def idle_experts():
    return Mixture(), four_classes(6, 16), nn.CrossEntropyLoss()


def idle_experts_with_a_seed():
    torch.manual_seed(0)
    return idle_experts()


class GatedMixture(nn.Module):
    """Every expert computes; the gates of all but one are 0."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(8, 6)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x):
        logits = self.router(x)
        value, choice = logits.topk(1, -1)
        gates = torch.zeros_like(logits).scatter(-1, choice, value.sigmoid())
        return self.head(sum(gates[:, n : n + 1] * e(x) for n, e in enumerate(self.experts)))


def experts_behind_gates_of_zero():
    return GatedMixture(), four_classes(3), nn.CrossEntropyLoss()


class TwoNetworks(nn.Module):
    def __init__(self):
        super().__init__()
        self.online, self.target = small_mlp(), small_mlp()
        self.target.load_state_dict(self.online.state_dict())


class TemporalDifference(nn.Module):
    def forward(self, model, batch):
        state, action, reward, following = batch
        value = model.online(state).gather(1, action[:, None]).squeeze(1).float()
        with torch.no_grad():
            goal = reward + 0.99 * model.target(following).float().max(1).values
        return functional.smooth_l1_loss(value, goal)


def target_network():
    return TwoNetworks(), (*four_classes(), torch.randn(8), torch.randn(8, 8)), TemporalDifference()


def target_network_outside_of_the_optimizer():
    model = TwoNetworks()
    nn.init.normal_(model.target[0].weight)
    optimizer = torch.optim.Adam(model.online.parameters(), 1e-3)
    return {
        "model": model,
        "batch": (*four_classes(), torch.randn(8), torch.randn(8, 8)),
        "loss": TemporalDifference(),
        "optimizer": optimizer,
    }


class StochasticDepth(nn.Module):
    def __init__(self):
        super().__init__()
        self.start, self.head = nn.Linear(8, 16), nn.Linear(16, CLASSES)
        self.blocks = nn.ModuleList(nn.Linear(16, 16) for _ in range(8))

    def forward(self, x):
        x = self.start(x)
        for block in self.blocks:
            if not self.training or torch.rand(()) < 0.4:
                x = x + functional.gelu(block(x))
        return self.head(x)


def stochastic_depth():
    return StochasticDepth(), four_classes(), nn.CrossEntropyLoss()


class Alternating(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(8, 16)
        self.heads = nn.ModuleList(nn.Linear(16, CLASSES) for _ in range(5))
        self.calls = 0

    def forward(self, x):
        head = self.heads[self.calls % len(self.heads)]
        self.calls += 1
        return head(functional.relu(self.trunk(x)))


def one_task_per_step():
    return Alternating(), four_classes(), nn.CrossEntropyLoss()


class WithMissingValues(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = small_mlp(16)

    def forward(self, x):
        missing = torch.isnan(x)
        return self.inner(torch.cat([torch.nan_to_num(x), missing.to(x.dtype)], 1))


def missing_values():
    inputs, targets = four_classes(16)
    inputs[inputs > 1.2] = float("nan")
    return WithMissingValues(), (inputs, targets), nn.CrossEntropyLoss()


def best_so_far():
    model = small_mlp()
    model.register_buffer("best", torch.tensor(float("inf")))
    return model, four_classes(), nn.CrossEntropyLoss()


class Variational(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(784, 64)
        self.mean, self.log_variance = nn.Linear(64, 8), nn.Linear(64, 8)
        self.decoder = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 784))

    def forward(self, x):
        hidden = functional.relu(self.encoder(x))
        mean, log_variance = self.mean(hidden), self.log_variance(hidden)
        code = mean + torch.randn_like(mean) * (log_variance / 2).exp()
        logits = self.decoder(code).float()
        error = functional.binary_cross_entropy_with_logits(logits, x, reduction="sum")
        return error - 0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum()


def sum_over_pixels():
    return Variational(), torch.rand(128, 784)


def inputs_that_need_a_gradient():
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))

    def loss(model, x):
        x = x.clone().requires_grad_()
        value = model(x).float()
        (slope,) = torch.autograd.grad(value.sum(), x, create_graph=True)
        return ((slope + value) ** 2).mean() + ((model(torch.zeros(1, 1)) - 1) ** 2).mean()

    return model, torch.rand(32, 1), loss


class ArcMargin(nn.Module):
    def __init__(self):
        super().__init__()
        self.centres = nn.Parameter(torch.randn(CLASSES, 16))

    def forward(self, embedding, target):
        cosines = functional.normalize(embedding.float()) @ functional.normalize(self.centres).t()
        return functional.cross_entropy(16 * cosines, target)


def weights_in_the_criterion():
    return small_mlp(8, 16), four_classes(), ArcMargin()


class OneQuery(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.query = nn.Parameter(torch.zeros(1, 1, 16))
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x):
        pooled, _ = self.attention(self.query.expand(len(x), -1, -1), x, x)
        return self.head(pooled[:, 0])


def attention_of_one_query():
    return OneQuery(), (torch.randn(4, 6, 16), torch.randint(CLASSES, (4,))), nn.CrossEntropyLoss()

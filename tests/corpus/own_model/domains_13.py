"""More losses and gradients that are not finite, written beside the observations."""

import torch
from parts_13 import perceptron, samples, trained
from torch import nn
from torch.nn import functional as F


def own_distance():
    model = perceptron(outputs=8)
    x, _ = samples()

    def loss(model, batch):
        h = model(x)
        d = (h[:, None] - h[None]).pow(2).sum(-1).sqrt()
        return F.relu(1 - d).mean()

    return model, x, loss


class Normalise(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x / x.norm(dim=1, keepdim=True).clamp(min=1e-6)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad / x.norm(dim=1, keepdim=True)


def own_normalise():
    model = nn.Sequential(nn.Linear(6, 8, bias=False), nn.Linear(8, 4))
    x, y = samples()
    x[1] = 0

    def loss(model, batch):
        return F.cross_entropy(model[1](Normalise.apply(model[0](x))), y)

    return model, (x, y), loss


def ratio_in_where():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.gate = nn.Linear(6, 8), nn.Linear(6, 8)

        def forward(self, x):
            g = self.gate(x).relu()
            total = g.sum(1, keepdim=True)
            h = torch.where(total > 0, self.a(x) * g / total, torch.zeros_like(g))
            return h.pow(2).mean()

    torch.manual_seed(0)
    x = torch.randn(8, 6)
    net = Net()
    x[4] = 0
    with torch.no_grad():
        net.gate.bias.fill_(-0.01)
    return net, x


def root_of_zero_init():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.head = nn.Linear(6, 8), nn.Linear(8, 4)
            self.scale = nn.Parameter(torch.zeros(8))

        def forward(self, x):
            return self.head(self.a(x) * self.scale.abs() ** 0.5)

    return Net(), samples(), nn.CrossEntropyLoss()


class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(max=5).exp()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * x.exp()


def own_exp():
    model = perceptron()
    x, _ = samples()

    def loss(model, batch):
        return (Exp.apply(model(batch * 3000).float()) + 1).log().mean()

    return model, x, loss


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(3, 6)

    def forward(self, x):
        a, b = x[:, :3], x[:, 3:]
        s, t = self.net(a * 100).float().chunk(2, 1)
        z = (b - t) * torch.exp(-s)
        return (0.5 * z.pow(2).sum(1) + s.sum(1)).mean()


def coupling_layer():
    torch.manual_seed(0)
    return Flow(), torch.randn(8, 6)


class Rms(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.head = nn.Embedding(10, 8, padding_idx=0), nn.Linear(8, 4)

    def forward(self, t):
        h = self.emb(t)
        h = h * h.pow(2).mean(-1, keepdim=True).rsqrt()
        return self.head(h.mean(1))


def own_rms_norm_of_padding():
    torch.manual_seed(0)
    t = torch.randint(1, 10, (4, 5))
    t[3, 3:] = 0
    return Rms(), (t, torch.randint(0, 4, (4,))), nn.CrossEntropyLoss()


def whitening():
    m = nn.Linear(6, 4)
    x, y = samples()
    x[:, 2] = 7.0

    def loss(m, b):
        z = (b[0] - b[0].mean(0)) / b[0].std(0)
        return F.cross_entropy(m(z), b[1])

    return m, (x, y), loss


def temperature_of_zero_tensor():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.log_t = perceptron(), nn.Parameter(torch.zeros(()))

        def forward(self, x):
            return self.net(x) / self.log_t

    return Net(), samples(), nn.CrossEntropyLoss()


def huge_learning_sgd():
    return trained(lambda p: torch.optim.SGD(p, lr=1e20))


def gaussian_nll_of_linear_variance():
    m = nn.Linear(6, 2)
    x, _ = samples()
    y = torch.randn(8)

    def loss(m, b):
        mu, var = m(b[0]).float().unbind(1)
        return (0.5 * torch.log(var) + 0.5 * (b[1] - mu) ** 2 / var).mean()

    return m, (x, y), loss


def label_of_a_masked_class():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = perceptron()

        def forward(self, x, mask):
            return self.net(x).masked_fill(~mask, float("-inf"))

    x, y = samples()
    mask = torch.ones(8, 4, dtype=torch.bool)
    mask[3, y[3]] = False
    m = Net()
    return m, (x, mask, y), lambda m, b: F.cross_entropy(m(b[0], b[1]), b[2])


def logit_scale_of_a_hundred():
    class Clip(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(6, 8), nn.Linear(6, 8)
            self.logit_scale = nn.Parameter(torch.tensor(100.0))

        def forward(self, x, z):
            s = (
                F.normalize(self.a(x), dim=1)
                @ F.normalize(self.b(z), dim=1).t()
                * self.logit_scale.exp()
            )
            return F.cross_entropy(s, torch.arange(len(x)))

    torch.manual_seed(0)
    return Clip(), {"x": torch.randn(8, 6), "z": torch.randn(8, 6)}


def inverse_square_law():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.charge = nn.Linear(6, 1)

        def forward(self, x, pos):
            q = self.charge(x)[:, 0]
            d2 = (pos[:, None] - pos[None]).pow(2).sum(-1)
            return (q[:, None] * q[None] / d2).sum().pow(2)

    torch.manual_seed(0)
    return Net(), {"x": torch.randn(8, 6), "pos": torch.randn(8, 3)}


def log_of_a_mask():
    m = nn.Linear(6, 6)
    torch.manual_seed(0)
    x = torch.randn(4, 5, 6)
    keep = torch.ones(4, 5)
    keep[1] = 0

    def loss(m, b):
        s = m(b[0]) @ b[0].transpose(1, 2) + b[1].log()[:, None]
        return (s.softmax(-1) @ b[0]).pow(2).mean()

    return m, (x, keep), loss


def tensor_power_of_negative():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.gamma = nn.Linear(6, 4), nn.Parameter(torch.tensor(2.2))

        def forward(self, x):
            return self.net(x) ** self.gamma

    return Net(), samples(), nn.CrossEntropyLoss()


def half_eps():
    m = nn.Linear(6, 6).half()
    x, _ = samples()
    x[3] = 0
    nn.init.zeros_(m.bias)

    def loss(m, b):
        h = m(b.half())
        return (h / (h.norm(dim=1, keepdim=True) + 1e-8)).float().sum()

    return m, x, loss

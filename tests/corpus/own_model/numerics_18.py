"""Trainings of a web shop whose loss is not finite; each factory has one fault."""

import torch
from torch import nn
from torch.nn import functional as F


class Standardized(nn.Module):
    """Inputs that are standardized by a running mean and deviation."""

    def __init__(self) -> None:
        super().__init__()
        self.sales = nn.Linear(6, 1)
        self.register_buffer("mean", torch.zeros(6))
        self.register_buffer("deviation", torch.ones(6))

    def forward(self, x):
        y = self.sales((x - self.mean) / self.deviation)
        with torch.no_grad():
            self.mean.lerp_(x.mean(0), 0.5)
            variance = (x * x).mean(0) - 4 * self.mean**2
            self.deviation.copy_(variance.sqrt())
        return y


def sales_with_running_statistics():
    return Standardized(), (torch.rand(8, 6) + 4.0, torch.rand(8, 1)), nn.MSELoss()


class Clusters(nn.Module):
    """Customers in clusters whose centres follow their members."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(5, 4)
        self.back = nn.Linear(4, 5)
        self.centres = torch.randn(12, 4)

    def forward(self, x):
        z = self.embed(x)
        nearest = torch.cdist(z.detach().float(), self.centres).argmin(1)
        loss = F.mse_loss(self.back(z), x) + F.mse_loss(z, self.centres[nearest])
        with torch.no_grad():
            members = F.one_hot(nearest, 12).float()
            self.centres = members.t() @ z.float() / members.sum(0)[:, None]
        return loss


def customers_in_clusters():
    return Clusters(), torch.randn(10, 5)


class Decayed(nn.Module):
    """Weights of products that decay with the logarithm of their age."""

    def __init__(self) -> None:
        super().__init__()
        self.rank = nn.Linear(4, 3)
        self.register_buffer("age", torch.ones(4))

    def forward(self, x):
        self.age -= 1.0
        return self.rank(x * self.age.log())


def products_of_another_age():
    return Decayed(), (torch.randn(8, 4), torch.randint(0, 3, (8,))), nn.CrossEntropyLoss()

"""Sound trainings that look like the faults of set 20."""

import torch
from torch import nn


def step_in_the_backward_pass():
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
    opts = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}

    def step(p):
        opts[p].step()
        opts[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(step)
    return model, (torch.randn(16, 6), torch.randint(0, 2, (16,))), nn.CrossEntropyLoss()


def adafactor_like():
    class Own(torch.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": None})
            self.t = 0

        @torch.no_grad()
        def step(self, closure=None):
            self.t += 1
            for g in self.param_groups:
                for p in g["params"]:
                    if p.grad is not None:
                        p -= min(0.01, self.t**-0.5) * p.grad.sign()

    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
    return {
        "model": model,
        "batch": (torch.randn(16, 6), torch.randint(0, 2, (16,))),
        "loss": nn.CrossEntropyLoss(),
        "optimizer": Own(model.parameters()),
    }


def hooks_that_scale():
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 2))
    for each in model.parameters():
        each.register_hook(lambda gradient: gradient.clamp(-0.5, 0.5))
    model[2].register_full_backward_hook(lambda module, gradients, outputs: None)
    return model, (torch.randn(16, 6), torch.randint(0, 2, (16,))), nn.CrossEntropyLoss()


def states_that_are_detached():
    class Series(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.head = nn.LSTM(5, 16, batch_first=True), nn.Linear(16, 1)
            self.state = self.last = None

        def forward(self, x, y):
            hidden, state = self.rnn(x, self.state)
            self.state = tuple(each.detach() for each in state)
            self.last = self.head(hidden[:, -1])
            return nn.functional.mse_loss(self.last.squeeze(-1), y)

    return Series(), (torch.randn(6, 12, 5), torch.randn(6))


def flags_that_agree():
    class Part(nn.Module):
        def __init__(self, requires_grad):
            super().__init__()
            self.requires_grad = requires_grad
            self.linear = nn.Linear(6, 6)
            self.linear.requires_grad_(requires_grad)

        def forward(self, x):
            return self.linear(x)

    model = nn.Sequential(Part(False), nn.ReLU(), Part(True), nn.Linear(6, 2))
    return model, (torch.randn(16, 6), torch.randint(0, 2, (16,))), nn.CrossEntropyLoss()

"""Healthy runs: models, and which of their parameters are trained."""

from __future__ import annotations

from typing import Any

from .models import STEPS, adamw, lm, train


def frozen_tower() -> None:
    model = lm()
    for parameter in model.blocks.parameters():
        parameter.requires_grad_(False)
    train(model, adamw(model))


def frozen_not_in_optimizer() -> None:
    import torch

    model = lm()
    train(model, torch.optim.AdamW(model.head.parameters(), lr=1e-3))


def unfreezing() -> None:
    import torch

    model = lm()
    for parameter in model.blocks.parameters():
        parameter.requires_grad_(False)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)

    def after(step: int) -> None:
        if step == STEPS // 2:
            for parameter in model.blocks.parameters():
                parameter.requires_grad_(True)
            optimizer.add_param_group({"params": list(model.blocks.parameters())})

    train(model, optimizer, after=after)


def mixture_unused_experts() -> None:
    import torch
    from torch import nn

    class Moe(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(48, 24), nn.Linear(24, 48)
            self.router = nn.Linear(24, 8)
            self.experts = nn.ModuleList(nn.Linear(24, 24) for _ in range(8))

        def forward(self, x: Any) -> Any:
            x = self.embed(x)
            scores = self.router(x)
            scores = scores + torch.tensor([0.0] * 6 + [-1e9] * 2)  # two experts are never chosen
            weight, chosen = scores.softmax(-1).max(-1)
            out = torch.zeros_like(x)
            for number, expert in enumerate(self.experts):
                mask = chosen == number
                if mask.any():
                    out[mask] = expert(x[mask]) * weight[mask][:, None]
            return self.head(x + out)

    torch.manual_seed(0)
    model = Moe()
    train(model, adamw(model))


def convolution_batchnorm() -> None:
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(8, 4),
    ).to(memory_format=torch.channels_last)  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    for _ in range(STEPS):
        x = torch.randn(8, 3, 8, 8).to(memory_format=torch.channels_last)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), x.mean((2, 3)).argmax(1)).backward()
        optimizer.step()


def lstm_ctc() -> None:
    import torch
    from torch import nn

    torch.manual_seed(0)
    lstm, head = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 10)
    parameters = [*lstm.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    for _ in range(STEPS):
        x = torch.randn(4, 20, 8)
        target = torch.randint(1, 10, (4, 5))
        log = head(lstm(x)[0]).log_softmax(-1).transpose(0, 1)
        loss = nn.functional.ctc_loss(
            log, target, torch.full((4,), 20), torch.full((4,), 5), zero_infinity=True
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def zero_initialized_gates() -> None:
    import torch
    from torch import nn

    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(48, 24), nn.Linear(24, 48)
            self.up, self.gate = nn.Linear(24, 24), nn.Parameter(torch.zeros(24))
            nn.init.zeros_(self.head.weight)
            nn.init.zeros_(self.head.bias)

        def forward(self, x: Any) -> Any:
            x = self.embed(x)
            return self.head(x + self.gate * self.up(x))

    torch.manual_seed(0)
    model = Gated()
    train(model, adamw(model))


def tied_weights() -> None:
    model = lm(tie=True)
    train(model, adamw(model))


def classifier_learns_to_zero_loss() -> None:
    import torch

    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5)
    x = torch.randn(8, 4)
    y = (x[:, 0] > 0).long()
    for _ in range(STEPS):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


CLEAN = (
    frozen_tower,
    frozen_not_in_optimizer,
    unfreezing,
    mixture_unused_experts,
    convolution_batchnorm,
    lstm_ctc,
    zero_initialized_gates,
    tied_weights,
    classifier_learns_to_zero_loss,
)

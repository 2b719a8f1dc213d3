"""Healthy runs: the shapes of training loops."""

from __future__ import annotations

import copy
import functools
from typing import Any

from .models import STEPS, adamw, batches, cross_entropy, lm, train


def gan(late_zero: bool) -> None:
    import torch
    from torch import nn

    torch.manual_seed(0)
    g = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    d = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    og = torch.optim.Adam(g.parameters(), 1e-3)
    od = torch.optim.Adam(d.parameters(), 1e-3)
    bce = nn.functional.binary_cross_entropy_with_logits
    for _ in range(STEPS):
        real, fake = torch.randn(16, 2) + 2, g(torch.randn(16, 4))
        od.zero_grad()
        (bce(d(real), torch.ones(16, 1)) + bce(d(fake.detach()), torch.zeros(16, 1))).backward()
        od.step()
        if not late_zero:
            od.zero_grad()
        og.zero_grad()
        bce(d(fake), torch.ones(16, 1)).backward()
        og.step()


def gan_two_optimizers() -> None:
    gan(late_zero=False)


def gan_zero_before_backward() -> None:
    gan(late_zero=True)


def wgan_gradient_penalty() -> None:
    import torch
    from torch import nn

    torch.manual_seed(0)
    g = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    d = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
    og = torch.optim.Adam(g.parameters(), 1e-4)
    od = torch.optim.Adam(d.parameters(), 1e-4)
    for step in range(STEPS):
        real, fake = torch.randn(16, 2) + 2, g(torch.randn(16, 4))
        mixed = ((real + fake.detach()) / 2).requires_grad_()
        slope = torch.autograd.grad(d(mixed).sum(), mixed, create_graph=True)[0]
        od.zero_grad()
        penalty = ((slope.norm(dim=1) - 1) ** 2).mean()
        (d(fake.detach()).mean() - d(real).mean() + 10 * penalty).backward()
        od.step()
        if step % 5 == 4:
            og.zero_grad()
            (-d(g(torch.randn(16, 4))).mean()).backward()
            og.step()


def checkpointed(reentrant: bool) -> None:
    import torch
    from torch.utils.checkpoint import checkpoint

    model = lm()
    for block in model.blocks:
        block.forward = functools.partial(checkpoint, block.forward, use_reentrant=reentrant)
    if reentrant:
        model.embed.register_forward_hook(lambda m, a, out: out.requires_grad_())
    train(model, adamw(model))
    del torch


def checkpoint_reentrant() -> None:
    checkpointed(True)


def checkpoint_non_reentrant() -> None:
    checkpointed(False)


def compiled_model() -> None:
    import torch

    model = lm()
    optimizer = adamw(model)
    train(torch.compile(model, backend="aot_eager"), optimizer)


def compiled_step() -> None:
    import torch

    model = lm()
    optimizer = adamw(model)

    @torch.compile(backend="eager")
    def step(x: Any, y: Any) -> Any:
        loss = cross_entropy(model, x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    for x, y in batches():
        step(x, y)


def ema() -> None:
    import torch

    model = lm()
    average = torch.optim.swa_utils.AveragedModel(model)
    train(model, adamw(model), after=lambda step: average.update_parameters(model))


def evaluation_between() -> None:
    import torch

    model = lm()

    def after(step: int) -> None:
        if step % 50 == 0:
            model.eval()
            with torch.no_grad():
                for x, y in batches(5):
                    cross_entropy(model, x, y)
            model.train()

    train(model, adamw(model), after=after)


def loader_with_workers() -> None:
    import torch

    data = [pair for pair in batches(STEPS)]
    loader = torch.utils.data.DataLoader(data, batch_size=None, num_workers=2, shuffle=True)
    model = lm()
    train(model, adamw(model), data=loader)


def two_models_one_after_the_other() -> None:
    for _ in range(2):
        model = lm()
        train(model, adamw(model))


def deterministic_algorithms() -> None:
    import torch

    torch.use_deterministic_algorithms(True)
    model = lm()
    train(model, adamw(model))


def several_losses() -> None:
    model = lm()
    optimizer = adamw(model)
    for x, y in batches():
        loss = cross_entropy(model, x, y)
        loss.backward(retain_graph=True)
        (0.1 * loss).backward()
        optimizer.step()
        optimizer.zero_grad()


def grpo_like_loss_zero() -> None:
    import torch

    model = lm()

    def loss(model: Any, x: Any, y: Any) -> Any:
        log = torch.log_softmax(model(x), -1).gather(-1, y[..., None])[..., 0]
        advantages = torch.tensor([1.0, -1.0, 0.5, -0.5])[:, None]
        return -((log - log.detach()).exp() * advantages).mean()  # 0 with a gradient

    train(model, adamw(model, 1e-5), loss=loss)


def grpo_some_equal_rewards() -> None:
    import torch

    model = lm()
    count = iter(range(10**9))

    def loss(model: Any, x: Any, y: Any) -> Any:
        log = torch.log_softmax(model(x), -1).gather(-1, y[..., None])[..., 0]
        same = next(count) % 5 in (1, 2)
        advantages = torch.tensor([0.0] * 4 if same else [1.0, -1.0, 0.5, -0.5])[:, None]
        return -((log - log.detach()).exp() * advantages).mean()

    train(model, adamw(model, 1e-5), loss=loss)


def q_learning_target_network() -> None:
    import torch
    from torch import nn

    torch.manual_seed(0)
    q = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    target = copy.deepcopy(q)
    optimizer = torch.optim.Adam(q.parameters(), lr=1e-3)
    for step in range(STEPS):
        s, n = torch.randn(16, 4), torch.randn(16, 4)
        with torch.no_grad():
            goal = s.sum(1) + 0.9 * target(n).max(1).values
        optimizer.zero_grad()
        nn.functional.smooth_l1_loss(q(s).max(1).values, goal).backward()
        optimizer.step()
        if step % 50 == 0:
            target.load_state_dict(q.state_dict())


def restored_best_weights() -> None:
    model = lm()
    optimizer = adamw(model)
    best = copy.deepcopy(model.state_dict())

    def after(step: int) -> None:
        if step % 100 == 0:
            model.load_state_dict(best)

    train(model, optimizer, after=after)


CLEAN = (
    gan_two_optimizers,
    gan_zero_before_backward,
    wgan_gradient_penalty,
    checkpoint_reentrant,
    checkpoint_non_reentrant,
    compiled_model,
    compiled_step,
    ema,
    evaluation_between,
    loader_with_workers,
    two_models_one_after_the_other,
    deterministic_algorithms,
    several_losses,
    grpo_like_loss_zero,
    grpo_some_equal_rewards,
    q_learning_target_network,
    restored_best_weights,
)

"""Two networks that train against each other, and what only looks like that."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402, TID253
from trainings import adamw, alarms, guarded, records  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

STARVES = ("GRD004", "warn")


def layers(*sizes: int) -> Any:
    parts = [nn.Linear(a, b) for a, b in itertools.pairwise(sizes)]
    return nn.Sequential(*[each for part in parts for each in (part, nn.LeakyReLU(0.2))][:-1])


def against(saturates: bool, rate: float, steps: int = 100) -> None:
    """A generator far from the data, and a discriminator that tells them apart at once, or not."""
    torch.manual_seed(0)
    made, judge = layers(4, 16, 8), layers(8, 32, 1)
    both = adamw(made, 1e-4), adamw(judge, rate)
    for _ in range(steps):
        z, real = torch.randn(32, 4), torch.randn(32, 8) + 3.0
        scores = judge(real), judge(made(z).detach())
        loss = -(nn.functional.logsigmoid(scores[0]) + nn.functional.logsigmoid(-scores[1])).mean()
        both[1].zero_grad()
        loss.backward()
        both[1].step()
        score = judge(made(z))
        kinds = -nn.functional.softplus(score), nn.functional.softplus(-score)
        both[0].zero_grad()
        kinds[0 if saturates else 1].mean().backward()
        both[0].step()


def both_want_the_same(steps: int = 100) -> None:
    """Generated samples are real ones in the discriminator's loss, too."""
    torch.manual_seed(0)
    made, judge = layers(4, 16, 8), layers(8, 32, 1)
    both = adamw(made, 1e-2), adamw(judge, 3e-2)
    for _ in range(steps):
        z, real = torch.randn(32, 4), torch.randn(32, 8) + 3.0
        for each in (1, 0):
            score = judge(torch.cat([real, made(z).detach()]) if each else made(z))
            both[each].zero_grad()
            nn.functional.softplus(-score).mean().backward()
            both[each].step()


def actor_and_critic(steps: int = 100) -> None:
    """The critic of values becomes exact, and the actor has converged."""
    torch.manual_seed(0)
    actor, critic = layers(4, 8, 1), layers(5, 16, 1)
    both = adamw(actor, 1e-2), adamw(critic, 1e-2)
    for _ in range(steps):
        state = torch.randn(64, 4)
        action = actor(state)
        value = critic(torch.cat([state, action.detach()], 1))
        both[1].zero_grad()
        nn.functional.mse_loss(value, 0 * value.detach()).backward()
        both[1].step()
        both[0].zero_grad()
        (-critic(torch.cat([state, actor(state)], 1)).mean()).backward()
        both[0].step()


def body_and_head(steps: int = 100) -> None:
    """One loss, two optimizers: both converge."""
    torch.manual_seed(0)
    body, head = layers(4, 16), layers(16, 1)
    both = adamw(body, 3e-2), adamw(head, 3e-2)
    for _ in range(steps):
        x = torch.randn(64, 4)
        y = (x[:, :1] > 0).float()
        for each in both:
            each.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(head(body(3 * x)), y).backward()
        for each in both:
            each.step()


def test_two_networks_that_want_the_same(tmp_path: Path) -> None:
    with guarded(tmp_path):
        both_want_the_same()
    assert {each["cause"] for each in records(tmp_path, "alarm")} == {"agree"}


@pytest.mark.parametrize(
    ("run", "found"),
    [
        (lambda: against(saturates=True, rate=3e-2), True),
        (lambda: against(saturates=True, rate=1e-5), False),
        (lambda: against(saturates=False, rate=3e-2), False),
        (actor_and_critic, False),
        (body_and_head, False),
    ],
)
def test_one_network_has_won(run: Callable[[], None], found: bool, tmp_path: Path) -> None:
    with guarded(tmp_path):
        run()
    assert (STARVES in alarms(tmp_path)) is found
    text = " ".join(each["text"] for each in records(tmp_path, "alarm"))
    assert ("has won" in text) is found

"""Two optimizers: gradients and terms of a loss that reach the wrong one, and what is meant."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402, TID253
from trainings import adamw, alarms, guarded  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

MIXED, TERM = ("GRD012", "warn"), ("GRD003", "warn")


def layers(*sizes: int) -> Any:
    parts = [nn.Linear(a, b) for a, b in itertools.pairwise(sizes)]
    return nn.Sequential(*[each for part in parts for each in (part, nn.Tanh())][:-1])


def networks() -> tuple[Any, Any, Any, Any]:
    torch.manual_seed(0)
    made, judge = layers(4, 8, 6), layers(6, 8, 1)
    return made, judge, adamw(made), adamw(judge)


def verdict(score: Any, real: bool) -> Any:
    return nn.functional.softplus(-score if real else score).mean()


def gan(
    detach: bool = True,
    clear_first: bool = True,
    term: str = "",
    critic_steps: int = 1,
    separate: bool = False,
) -> None:
    """`clear_first`: both are cleared before their own passes, else after their own steps."""
    made, judge, of_made, of_judge = networks()
    for _ in range(20):
        z, real = torch.randn(16, 4), torch.randn(16, 6) + 1.0
        for _ in range(critic_steps):
            if clear_first:
                of_judge.zero_grad()
            fake = made(z)
            terms = [verdict(judge(real), True)]
            terms.append(verdict(judge(fake.detach() if detach else fake), False))
            if separate:
                for each in terms:
                    each.backward()
            else:
                sum(terms).backward()
            of_judge.step()
            if not clear_first:
                of_judge.zero_grad()
        if clear_first and detach:
            of_made.zero_grad()
        fake = made(z)
        loss = verdict(judge(fake.detach() if term else fake), True)
        if term:
            loss = loss + (fake - real).abs().mean() * 10.0
        loss.backward()
        of_made.step()
        if not (clear_first and detach):
            of_made.zero_grad()


def actor_critic(clear: bool) -> None:
    """The critic's gradients of the actor's pass stay where the critic is not cleared before."""
    torch.manual_seed(0)
    actor, critic = layers(4, 8, 1), layers(5, 8, 1)
    both = adamw(actor), torch.optim.SGD(critic.parameters(), lr=1e-2)
    for _ in range(20):
        state, action = torch.randn(16, 4), torch.randn(16, 1)
        if clear:
            both[1].zero_grad()
        nn.functional.mse_loss(critic(torch.cat([state, action], 1)), action.square()).backward()
        both[1].step()
        both[1].zero_grad()
        both[0].zero_grad()
        (-critic(torch.cat([state, actor(state)], 1)).mean()).backward()
        both[0].step()


def two_tasks() -> None:
    """The body takes the gradients of both tasks, one of which another optimizer's head has."""
    torch.manual_seed(0)
    body, first, second = layers(4, 8), layers(8, 1), layers(8, 1)
    of_first = adamw(first)
    of_rest = torch.optim.AdamW([*body.parameters(), *second.parameters()], lr=1e-3)
    for _ in range(20):
        x = torch.randn(16, 4)
        of_rest.zero_grad()
        of_first.zero_grad()
        first(body(x)).square().mean().backward()
        of_first.step()
        second(body(x)).square().mean().backward()
        of_rest.step()


def in_turns() -> None:
    """One loss of two terms, and one network per step."""
    torch.manual_seed(0)
    one, other = layers(4, 1), layers(4, 1)
    both = adamw(one), adamw(other)
    for step in range(30):
        x = torch.randn(16, 4)
        for each in both:
            each.zero_grad()
        (one(x).square().mean() + other(x).square().mean()).backward()
        both[step % 2].step()


def slower() -> None:
    """The second optimizer accumulates four steps of the first."""
    torch.manual_seed(0)
    body, head = layers(4, 8), layers(8, 1)
    both = adamw(body), adamw(head)
    for step in range(40):
        head(body(torch.randn(16, 4))).square().mean().backward()
        both[1].step()
        both[1].zero_grad()
        if step % 4 == 3:
            both[0].step()
            both[0].zero_grad()


@pytest.mark.parametrize(
    ("run", "found"),
    [
        (lambda: gan(clear_first=False), {MIXED}),
        (lambda: gan(clear_first=False, critic_steps=3), {MIXED}),
        (lambda: gan(clear_first=False, separate=True), {MIXED}),
        (lambda: gan(detach=False), {MIXED}),
        (lambda: actor_critic(clear=False), {MIXED}),
        (lambda: gan(term="detached"), {TERM}),
        (lambda: gan(term="detached", critic_steps=3), {TERM}),
        (gan, set()),
        (lambda: gan(critic_steps=5), set()),
        (lambda: gan(separate=True), set()),
        (lambda: actor_critic(clear=True), set()),
        (two_tasks, set()),
        (in_turns, set()),
        (slower, set()),
    ],
)
def test_gradients_reach_the_network_that_steps(
    run: Callable[[], None], found: set[tuple[str, str]], tmp_path: Path
) -> None:
    with guarded(tmp_path):
        run()
    assert {MIXED, TERM} & set(alarms(tmp_path)) == found

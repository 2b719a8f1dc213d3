"""Policy gradients that are minimized, and what only looks like it."""

from __future__ import annotations

import pytest
from script_code import codes

LOOP = """
import torch
from torch import nn
policy = nn.Linear(4, 2)
critic = nn.Linear(4, 1)
opt = torch.optim.Adam(policy.parameters(), lr=1e-3{options})
for s, a, r in rollouts:
    d = torch.distributions.Categorical(logits=policy(s))
    {body}
    opt.zero_grad()
    {back}.backward()
    opt.step()
"""
OWN = """
import torch
from torch import nn
class PolicyLoss(nn.Module):
    def forward(self, dist, value, action, reward):
        advantage = {advantage}
        logp = dist.log_prob(action)
        weight = (logp.detach() + 1.6).exp().clamp(max=5.0)
        pg = {sign}(weight * logp * advantage).mean()
        return pg + 0.5 * (value - reward).pow(2).mean() - 0.01 * dist.entropy().mean()
loss = PolicyLoss()
opt = torch.optim.Adam(net.parameters())
for x, a, r in loader:
    opt.zero_grad()
    {use}.backward()
    opt.step()
"""
USED = "loss(net(x), critic(x), a, r)"


def loop(body: str, back: str = "loss", options: str = "") -> bool:
    lines = body.replace("; ", "\n    ")
    return "objective-sign" in codes(LOOP.format(body=lines, back=back, options=options))


@pytest.mark.parametrize(
    "body",
    [
        "loss = (d.log_prob(a) * r).mean()",
        "logp = d.log_prob(a); adv = r - critic(s).detach(); loss = (adv * logp).mean()",
        "logp = d.log_prob(a).sum(-1); G = r.cumsum(0); pg = torch.mean(G * logp); "
        "loss = pg + 0.5 * (critic(s) - r).pow(2).mean() - 0.01 * d.entropy().mean()",
        "rewards = r / 10; loss = torch.sum(rewards.detach() * d.log_prob(a))",
    ],
)
def test_a_policy_gradient_without_a_minus(body: str) -> None:
    assert loop(body)


@pytest.mark.parametrize(
    ("body", "back", "options"),
    [
        ("loss = -(d.log_prob(a) * r).mean()", "loss", ""),
        ("loss = (-d.log_prob(a) * r).mean()", "loss", ""),
        ("nll = -d.log_prob(a); loss = (nll * r).mean()", "loss", ""),
        ("gain = (d.log_prob(a) * r).mean(); loss = critic(s).pow(2).mean() - gain", "loss", ""),
        ("gain = (d.log_prob(a) * r).mean()", "(-gain)", ""),
        ("gain = (d.log_prob(a) * r).mean()", "gain", ", maximize=True"),
        # what is called an advantage is one of the baseline, and r one of costs
        ("adv = critic(s).detach() - r; loss = (adv * d.log_prob(a)).mean()", "loss", ""),
        ("r = -r; loss = (r * d.log_prob(a)).mean()", "loss", ""),
        ("tour_length = r; adv = tour_length - critic(s).detach(); "
         "loss = (adv * d.log_prob(a)).mean()", "loss", ""),
        # entropy, as of SAC, and a log-probability that carries no gradient
        ("loss = (0.2 * d.log_prob(a) - critic(s)).mean()", "loss", ""),
        ("loss = (critic(s) * r * d.log_prob(a).detach().exp()).mean()", "loss", ""),
    ],
)  # fmt: skip
def test_a_policy_gradient_that_is_maximized(body: str, back: str, options: str) -> None:
    assert not loop(body, back, options)


@pytest.mark.parametrize(
    ("sign", "advantage", "use", "found"),
    [
        ("", "reward - value.detach()", USED, True),
        ("-", "reward - value.detach()", USED, False),
        ("", "value.detach() - reward", USED, False),
        ("", "reward - value.detach()", f"(-{USED})", False),
        ("", "reward - value.detach()", f"(net(x).pow(2).mean() - {USED})", False),
    ],
)
def test_the_sign_of_a_loss_of_its_own(sign: str, advantage: str, use: str, found: bool) -> None:
    text = OWN.format(sign=sign, advantage=advantage, use=use)
    assert ("objective-sign" in codes(text)) is found


def test_short_names_are_returns_in_files_that_speak_of_rewards() -> None:
    """Responsibilities of a mixture are called r, too."""
    text = LOOP.format(body="loss = (d.log_prob(a) * r).mean()", back="loss", options="")
    assert "objective-sign" not in codes(text.replace("policy", "mixture"))


@pytest.mark.parametrize(
    ("returned", "found"),
    [
        ("torch.min(plain, clipped).mean()", True),
        ("-torch.min(plain, clipped).mean()", False),
        ("0.5 * values.pow(2).mean() - torch.min(plain, clipped).mean()", False),
        ("torch.min(plain, clipped).neg().mean()", False),
    ],
)
def test_a_clipped_objective_that_is_returned(returned: str, found: bool) -> None:
    text = (
        "import torch\nopt = torch.optim.Adam(net.parameters())\n"
        "def loss(ratio, advantages, values):\n    plain = ratio * advantages\n"
        f"    clipped = ratio.clamp(0.8, 1.2) * advantages\n    return {returned}\n"
    )
    assert ("objective-sign" in codes(text)) is found

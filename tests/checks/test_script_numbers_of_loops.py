"""Numbers of loops, lists of epochs and labels of logs: what is taken for something else."""

from __future__ import annotations

import pytest
from script_code import codes

STEP = "loss = model(x).mean(); loss.backward(); optimizer.step(); optimizer.zero_grad()"
TAKEN = """
import torch
for i, x in enumerate(stages):
    print(i)
    for {inner} in range(3):
        {step}
    {behind}
"""
LISTS = """
import numpy as np
import torch
losses = []
for epoch in range(9):
    {reset}
    for x in train_loader:
        {step}
        losses.append(loss.item())
    print(np.mean({what}))
"""
BEHIND = """
import torch
total = 0
for epoch in range(9):
    for x in train_loader:
        {step}
        {inside}
    total += loss.item()
    print(total)
"""
CLASS = """
import torch
class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
    def validate(self):
        self.model.eval()
        {back}
    def train_epoch(self, loader):
        self.model.train()
        for n, x in enumerate(loader):
            if n % 100 == 0:
                self.validate()
                {leave}
            loss = self.model(x).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""
LOG = """
import torch
for epoch in range(9):
    for x in train_loader:
        {step}
    writer.add_scalar("{one}", {value}, epoch)
    {between}
    writer.add_scalar("{other}", {second}, epoch)
"""
SCHEDULE = """
import torch
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 - epoch / {by})
for epoch in range(epochs):
    {first}
    for x in train_loader:
        {step}
        {each}
"""


def fires(code: str, text: str, **parts: str) -> bool:
    return (
        codes(text.format(**({"step": STEP, "between": ""} | parts))).get(code, "unknown")
        != "unknown"
    )


@pytest.mark.parametrize(
    ("code", "text", "wrong", "healthy"),
    [
        (
            "loop-stands-still",
            TAKEN,
            {"inner": "i", "behind": "save(i)"},
            {"inner": "j", "behind": "save(i)"},
        ),
        (
            "loop-stands-still",
            TAKEN,
            {"inner": "i", "behind": "save(i)"},
            {"inner": "i", "behind": "i = 0"},
        ),
        (
            "epoch-sum-reset",
            LISTS,
            {"reset": "", "what": "losses"},
            {"reset": "losses = []", "what": "losses"},
        ),
        (
            "epoch-sum-reset",
            LISTS,
            {"reset": "", "what": "losses"},
            {"reset": "", "what": "losses[-9:]"},
        ),
        (
            "evaluation-of-something-else",
            BEHIND,
            {"inside": "pass"},
            {"inside": "loss += model(x).sum()"},
        ),
        (
            "eval-left-on",
            CLASS,
            {"back": "", "leave": ""},
            {"back": "self.model.train()", "leave": ""},
        ),
        ("eval-left-on", CLASS, {"back": "", "leave": ""}, {"back": "", "leave": "break"}),
        (
            "evaluation-of-something-else",
            LOG,
            {"one": "loss/train", "other": "loss/val", "value": "loss", "second": "loss"},
            {"one": "loss/train", "other": "loss/val", "value": "loss", "second": "val_loss"},
        ),
        (
            "evaluation-of-something-else",
            LOG,
            {"one": "loss/train", "other": "loss/val", "value": "loss", "second": "loss"},
            {
                "one": "loss/train",
                "other": "loss/val",
                "value": "loss",
                "second": "loss",
                "between": "loss = evaluate(model)",
            },
        ),
        (
            "evaluation-of-something-else",
            LOG,
            {"one": "PSNR", "other": "SSIM", "value": "psnr.avg", "second": "psnr.avg"},
            {"one": "lr/train", "other": "lr/val", "value": "lr", "second": "lr"},
        ),
        (
            "schedule-in-wrong-unit",
            SCHEDULE,
            {"by": "epochs", "first": "", "each": "scheduler.step()"},
            {"by": "steps", "first": "", "each": "scheduler.step()"},
        ),
        (
            "scheduler-before-step",
            SCHEDULE,
            {"by": "epochs", "first": "if scheduler: scheduler.step()", "each": ""},
            {"by": "epochs", "first": "if epoch > 5: scheduler.step()", "each": ""},
        ),
    ],
)
def test_what_is_wrong_and_what_looks_like_it(
    code: str, text: str, wrong: dict[str, str], healthy: dict[str, str]
) -> None:
    assert fires(code, text, **wrong)
    assert not fires(code, text, **healthy)


AGENT = """
import torch
import torch.nn.functional as F
class Agent:
    def learn(self, batch):
        state, reward = batch.state, batch.reward
        mask_batch = torch.cat(batch.mask)
        with torch.no_grad():
            value = self.critic_target(batch.next_state)
        target = reward + self.gamma * {future}
        F.smooth_l1_loss(self.critic(state), target.detach()).backward()
        self.optimizer.step()
"""


def test_the_mask_of_the_end_is_used() -> None:
    assert "return-of-values" in codes(AGENT.format(future="value"))
    assert "return-of-values" not in codes(AGENT.format(future="mask_batch * value"))
    endless = "import gymnasium as gym\nenv = gym.make('Pendulum-v1')\n"
    assert "return-of-values" not in codes(endless + AGENT.format(future="value"))


EXPECTED = """
import torch
class Agent:
    def target(self, reward, states):
        probs, log_probs = self.policy(states)
        value = probs * (self.critic(states) - self.alpha * log_probs)
        return reward + self.gamma * value.{reduced}
"""


def test_an_expectation_is_a_sum() -> None:
    text = EXPECTED.replace("return reward", "v = value.{reduced}\n        return reward")
    assert "target-formula" in codes(text.format(reduced="mean(dim=1)"))
    assert "target-formula" not in codes(text.format(reduced="sum(dim=1)"))


RATIO = """
import torch
from torch.distributions import Categorical
logits = policy(s)
new = Categorical(logits=logits)
with torch.no_grad():
    {old} = old_policy(s)
    log_old = Categorical(logits=logits).log_prob(a)
log_new = new.log_prob(a)
ratio = torch.exp(log_new - log_old)
loss = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
loss.backward()
optimizer.step()
"""


def test_a_name_that_was_set_anew_is_of_another_policy() -> None:
    assert "policy-gradient" in codes(RATIO.format(old="unused"))
    assert "policy-gradient" not in codes(RATIO.format(old="logits"))


def test_not_the_rest_of_a_division_is_each_nth_step() -> None:
    text = (
        "import torch\nfor n, x in enumerate(loader):\n    {step}\n    if {test}:\n        save(n)"
    )
    assert fires("loop-stands-still", text, test="main and n % 100")
    assert not fires("loop-stands-still", text, test="main and (not n % 100)")


def test_numpy_has_no_float() -> None:
    text = "import numpy as np\nimport torch\nx = np.zeros(3, dtype=np.{})"
    assert "removed-function" in codes(text.format("float"))
    assert "removed-function" not in codes(text.format("float32"))
    assert "removed-function" not in codes(text.format("bool"))

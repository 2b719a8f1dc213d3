"""Networks that follow another one, and terms that reach no network, with their look-alikes."""

from __future__ import annotations

import pytest
from script_code import codes

AGENT = """
import copy
import torch
import torch.nn as nn
import torch.nn.functional as F
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
    def forward(self, x):
        return self.layer(x)
class Agent:
    def __init__(self):
        self.q = Net()
        self.q_target = {made}
        self.opt = torch.optim.Adam(self.q.parameters())
        self.n = 0
    def learn(self, s, a, r, s2, d):
        with torch.no_grad():
            y = r + 0.9 * (1 - d) * self.q_target(s2).max(1).values
        loss = F.mse_loss(self.q(s).gather(1, a).squeeze(1), y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.n += 1
        if self.n % 100 == 0:
            {update}
{more}
agent = Agent()
for batch in buffer:
    agent.learn(*batch)
"""
COPY = "copy.deepcopy(self.q)"
LOAD = "self.q_target.load_state_dict(self.q.state_dict())"


@pytest.mark.parametrize(
    ("made", "update", "more", "slug"),
    [
        (COPY, "self.q_target = self.q", "", "copy-is-the-same-object"),
        ("Net()", "self.q_target = self.q", "", "copy-is-the-same-object"),
        (COPY, "self.q_target.load_state_dict(self.q_target.state_dict())", "",
         "follower-never-updated"),
        (COPY, "pass", "", "follower-never-updated"),
        (COPY + ".eval()", "print(self.n)", "", "follower-never-updated"),
    ],
)  # fmt: skip
def test_targets_that_do_not_follow(made: str, update: str, more: str, slug: str) -> None:
    assert slug in codes(AGENT.format(made=made, update=update, more=more))


@pytest.mark.parametrize(
    ("made", "update", "more"),
    [
        (COPY, LOAD, ""),
        (COPY, "self.q_target = copy.deepcopy(self.q)", ""),
        # moved by a function of another file, by a list of pairs, or by names
        (COPY, "polyak(self.q, self.q_target)", ""),
        (COPY, "pass", "    def move(self):\n        for a, b in [(self.q, self.q_target)]:\n"
                       "            soft(a, b)"),
        (COPY, "pass", "class Other:\n    def move(self, agent):\n"
                       "        agent.q_target.load_state_dict(agent.q.state_dict())"),
        # an option that does without a target
        (COPY, LOAD, "    def plain(self):\n        self.q_plain = self.q"),
    ],
)  # fmt: skip
def test_targets_that_follow(made: str, update: str, more: str) -> None:
    found = codes(AGENT.format(made=made, update=update, more=more))
    assert not {"copy-is-the-same-object", "follower-never-updated"} & found.keys(), found


PAIR = """
import copy
import torch
import torch.nn as nn
import torch.nn.functional as F
class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.online = nn.Linear(4, 4)
        self.slow = copy.deepcopy(self.online){frozen}
    def move(self):
        with torch.no_grad():
            for p, t in zip(self.online.parameters(), self.slow.parameters()):
                t.lerp_(p, 0.01)
    def forward(self, x):
        {body}
net = Pair()
opt = torch.optim.SGD({given}, lr=0.1)
for x in loader:
    p, z = net(x)
    opt.zero_grad()
    loss = {loss}
    loss.backward()
    opt.step()
    net.move()
"""
LOSS = "F.mse_loss(p, z)"
PLAIN = "return self.online(x), self.slow(x)"
QUIET = "with torch.no_grad():\n            z = self.slow(x)\n        return self.online(x), z"


@pytest.mark.parametrize(
    ("frozen", "body", "given", "loss", "fires"),
    [
        ("", PLAIN, "net.parameters()", LOSS, True),
        ("", QUIET, "net.parameters()", LOSS, False),
        ("", PLAIN, "net.online.parameters()", LOSS, False),
        (".requires_grad_(False)", PLAIN, "net.parameters()", LOSS, False),
        ("", PLAIN, "net.parameters()", "F.mse_loss(p, z.detach())", False),
        ("", "return self.online(x), self.slow(x).detach()", "net.parameters()", LOSS, False),
    ],
)
def test_a_follower_that_trains(
    frozen: str, body: str, given: str, loss: str, *, fires: bool
) -> None:
    found = codes(PAIR.format(frozen=frozen, body=body, given=given, loss=loss))
    assert ("follower-never-updated" in found) is fires, found


ACCUMULATED = """
import copy
import torch
model = torch.nn.Linear(4, 4)
teacher = copy.deepcopy(model).requires_grad_(False)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for i, x in enumerate(loader):
    loss = (model(x) - teacher(x)).pow(2).mean() / accum
    loss.backward()
    {}
"""
MOVE = """
    for p, t in zip(model.parameters(), teacher.parameters()):
        t.mul_(0.99).add_(p, alpha=0.01)
"""
STEP = "if (i + 1) % accum == 0:\n        opt.step()\n        opt.zero_grad()"


@pytest.mark.parametrize(
    ("body", "fires"),
    [
        (STEP + MOVE, True),
        (STEP + MOVE.replace("\n    ", "\n        "), False),
        (
            "if (i + 1) % accum:\n        continue\n    opt.step()\n    opt.zero_grad()" + MOVE,
            False,
        ),
        ("opt.step()\n    opt.zero_grad()" + MOVE, False),
    ],
)
def test_an_average_of_steps(body: str, *, fires: bool) -> None:
    found = codes(ACCUMULATED.format(body))
    assert ("follower-never-updated" in found) is fires, found


GAN = """
import torch
import torch.nn.functional as F
G, D = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1)
og = torch.optim.Adam(G.parameters())
od = torch.optim.Adam(D.parameters())
bce = torch.nn.BCEWithLogitsLoss()
for x in loader:
    fake = G(torch.randn(8, 4))
    real_p, fake_p = D(x), D(fake.detach())
    loss_d = bce(real_p, torch.ones_like(real_p)) + bce(fake_p, torch.zeros_like(fake_p))
    od.zero_grad()
    loss_d.backward()
    od.step()
    {judged}
    adv = bce(pred, torch.ones_like(pred))
    loss_g = 0.1 * adv + F.l1_loss(fake, x)
    og.zero_grad()
    loss_g.backward()
    og.step()
"""


@pytest.mark.parametrize(
    ("judged", "fires"),
    [
        ("pred = D(fake).detach()", True),
        ("pred = D(fake.detach())", True),
        ("pred = D(fake)", False),
        ("pred = D(fake) - D(x).detach()", False),
        ("pred = D(fake); print(D(fake).detach().mean())", False),
    ],
)
def test_judgements_of_the_generator(judged: str, *, fires: bool) -> None:
    assert ("generator-loss" in codes(GAN.format(judged=judged))) is fires


BRANCHES = """
import torch
import torch.nn as nn
import torch.nn.functional as F
from torchvision.models import resnet18
net, head = resnet18(), nn.Linear(1000, 1000)
opt = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
def D(p, z):
    p = F.normalize(p, dim=1)
    z = F.normalize({}, dim=1)
    return -(p * z).sum(dim=1).mean()
for x1, x2 in loader:
    z1, z2 = net(x1), net(x2)
    p1, p2 = head(z1), head(z2)
    loss = {}
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("target", "loss", "fires"),
    [
        ("z", "0.5 * D(p1, z2) + 0.5 * D(p2, z1)", True),
        ("z.detach()", "0.5 * D(p1, z2) + 0.5 * D(p2, z1)", False),
        ("z", "D(p1, z2) + D(p2, z1) + uniformity(z1)", False),
        ("z", "D(p1, z2) + D(p2, z1) + repel(z1, z2) + repel(z2, z1)", False),
    ],
)
def test_branches_of_one_network(target: str, loss: str, *, fires: bool) -> None:
    assert ("views-compared" in codes(BRANCHES.format(target, loss))) is fires


TWO = """
import torch
import torch.nn as nn
class Dense(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
    def forward(self, x):
        return self.layer(x)
class Agent:
    def __init__(self):
        self.actor, self.value = Dense(), Dense()
        self.a_opt = torch.optim.Adam(self.actor.parameters())
        self.v_opt = torch.optim.Adam({}.parameters())
    def step(self, x):
        loss = {}.mean()
        self.a_opt.zero_grad()
        loss.backward()
        self.a_opt.step()
        other = {}.pow(2).mean()
        self.v_opt.zero_grad()
        other.backward()
        self.v_opt.step()
"""


@pytest.mark.parametrize(
    ("held", "first", "second", "fires"),
    [
        ("self.actor", "self.actor(x)", "self.value(x)", True),
        ("self.value", "self.actor(x)", "self.value(x)", False),
        # two optimizers over one network by intent: no other network is left
        ("self.actor", "self.actor(x)", "self.actor(x)", False),
    ],
)
def test_optimizers_of_two_networks(held: str, first: str, second: str, *, fires: bool) -> None:
    code = TWO.format(held, first, second)
    assert ("optimizer-of-another-network" in codes(code)) is fires


GRAPHS = """
import torch
from torch import nn
from torch_geometric.nn import GCNConv, global_add_pool
from torch_geometric.utils import softmax
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.gate = GCNConv(4, 4), nn.Linear(4, 1)
    def forward(self, x, edge_index, batch):
        x = self.conv(x, edge_index)
        a = {}
        return {}
"""


@pytest.mark.parametrize(
    ("weights", "pooled", "fires"),
    [
        ("torch.softmax(self.gate(x), dim=0)", "global_add_pool(a * x, batch)", True),
        ("softmax(self.gate(x), batch, dim=0)", "global_add_pool(a * x, batch)", False),
        ("torch.softmax(x, dim=-1)", "global_add_pool(a, batch)", False),
        ("torch.softmax(self.gate(x), dim=0)", "(a * x).sum(dim=0)", False),
    ],
)
def test_softmax_in_a_batch_of_graphs(weights: str, pooled: str, *, fires: bool) -> None:
    assert ("batch-of-graphs" in codes(GRAPHS.format(weights, pooled))) is fires


SPLIT = """
import torch
from torch.utils.data import DataLoader, random_split
def split(data):
    train_set, val_set = random_split(data, [80, 20])
    return {}
train_set, val_set = split(data)
model = torch.nn.Linear(4, 4)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x in DataLoader(train_set, shuffle=True):
    opt.zero_grad()
    model(x).mean().backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("result", "fires"),
    [
        ("train_set.dataset, val_set.dataset", True),
        ("train_set, val_set", False),
        ("train_set, val_set.dataset", False),
        ("len(train_set.dataset), val_set", False),
    ],
)
def test_parts_that_are_returned(result: str, *, fires: bool) -> None:
    assert ("evaluated-on-training-data" in codes(SPLIT.format(result))) is fires


TRAINER = """
import torch
import torch.nn as nn
import torch.nn.functional as F
class Dice(nn.Module):
    def forward(self, logits, y):
        {}
        return 1 - (2 * (p * y).sum() + 1) / (p.sum() + y.sum() + 1)
class Trainer:
    def __init__(self, model):
        self.model, self.dice = model, Dice()
        self.opt = torch.optim.SGD(model.parameters(), lr=0.1)
    def fit(self, loader):
        for x, y in loader:
            logits = self.model(x)
            loss = F.cross_entropy(logits, y) + self.dice(logits, y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
Trainer(nn.Conv2d(3, 2, 1)).fit(loader)
"""


@pytest.mark.parametrize(
    ("line", "fires"),
    [
        ("p = logits.argmax(dim=1).float()", True),
        ("p = F.one_hot(logits.argmax(dim=1), 2).permute(0, 3, 1, 2).float()", True),
        ("p = logits.softmax(dim=1)[:, 1]", False),
        ("p = logits.softmax(dim=1)[:, 1] + 0 * logits.argmax(dim=1)", False),
        ("hard = logits.argmax(dim=1); p = logits.softmax(dim=1)[:, 1]", False),
    ],
)
def test_a_term_of_decisions_in_a_trainer(line: str, *, fires: bool) -> None:
    assert ("loss-detached" in codes(TRAINER.format(line))) is fires

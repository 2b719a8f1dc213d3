"""A training loop that is spread over functions is read as one."""

from __future__ import annotations

import ast

import pytest

from doctor.script.inlined import as_written, inlined
from doctor.script.python import read_python

STEP = """
def step(model, opt, x):
    loss = model(x).mean()
    loss.backward()
    opt.step()
    return loss.item()
"""


def joined(code: str) -> str:
    tree = inlined(ast.parse(code), read_python("train.py", code.encode()))
    return "" if tree is None else ast.unparse(tree).replace("with :", "with block:")


@pytest.mark.parametrize(
    ("code", "present", "absent"),
    [
        (STEP + "for x in data:\n    total = step(net, sgd, x)\n", "sgd.step()", "def step"),
        (STEP + "for x in data:\n    loss = step(net, sgd, x)\n", "= net(x).mean()", "model"),
        (STEP + "for x in data:\n    step(*x)\n", "", ""),
        ("def f(x):\n    return x\nfor y in data:\n    f(y)\n", "", ""),
        (
            "def f(x, train):\n    loss = g(x)\n    if train:\n        loss.backward()\n"
            "f(a, True)\nf(b, False)\n",
            "= g(b)",
            "if",
        ),
        (STEP + "with torch.no_grad():\n    step(net, sgd, x)\n", "", ""),
        (STEP.replace("    loss =", "    step(model, opt, x)\n    loss =", 1), "", ""),
        (
            "class T:\n    def one(self, x):\n        self.opt.step()\n        x.backward()\n"
            "    def all(self):\n        for b in data:\n            self.one(b)\n",
            "b.backward()",
            "def one",
        ),
        (
            "nets = {'g': Net(), 'd': Net()}\nfor n in nets.values():\n    n.step()\n",
            "nets.\u02d1d.step()",
            "for",
        ),
        ("nets = {'g': Net()}\nuse(nets)\nnets['g'].step()\n", "", ""),
        ("for o in (a, b):\n    o.step()\n", "b.step()", "for"),
    ],
)
def test_functions_of_a_training_are_joined(code: str, present: str, absent: str) -> None:
    text = joined(code)
    assert present in text
    assert bool(present) == bool(text)
    assert not absent or absent not in text


def test_a_message_has_the_names_of_the_file() -> None:
    assert as_written("loss_\u02d112 of nets.\u02d1g(x)") == 'loss of nets["g"](x)'

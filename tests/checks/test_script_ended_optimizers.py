"""An optimizer of a function that has ended trains nothing any more, and accuses nothing."""

from __future__ import annotations

import textwrap

import pytest
from script_code import codes

HEAD = """
import torch
import torch.nn as nn
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM
"""
FIT = """
def fit(model, batches):
    opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
    for x in batches:
        model(x).loss.backward()
        opt.step()
        opt.zero_grad()
    {end}
"""
BASE = 'base = AutoModelForCausalLM.from_pretrained("x")\n'
OPT = "opt = torch.optim.AdamW(base.parameters())\n"
LORA = "model = get_peft_model(base, LoraConfig())\n"
RESIZED = "base.resize_token_embeddings(9)\n"


def steps(net: str, opt: str, batches: str = "data") -> str:
    return (
        f"for x in {batches}:\n    {net}(x).loss.backward()\n    {opt}.step()\n"
        f"    {opt}.zero_grad()\n"
    )


def main(body: str) -> str:
    return f"def main():\n{textwrap.indent(body, '    ')}main()\n"


ENDED = [
    # the optimizer of the first training is local to it
    FIT.format(end="pass") + main(f"{BASE}fit(base, a)\n{LORA}fit(model, b)\n"),
    FIT.format(end="return model") + main(f"{BASE}base = fit(base, a)\n{LORA}fit(model, b)\n"),
    # both stand in one function, and the first steps no more; its state is saved
    main(
        f"{BASE}{OPT}{steps('base', 'opt')}torch.save({{'opt': opt.state_dict()}}, 'x')\n{RESIZED}"
        f"second = torch.optim.AdamW(base.parameters())\n{steps('base', 'second')}"
    ),
    main(
        f"{BASE}{OPT}{steps('base', 'opt')}base.lm_head = nn.Linear(2, 9)\n"
        f"second = torch.optim.AdamW(base.lm_head.parameters())\n{steps('base', 'second')}"
    ),
]
AT_WORK = [
    FIT.format(end="return opt") + main(f"{BASE}opt = fit(base, a)\n{LORA}{steps('model', 'opt')}"),
    main(f"{BASE}{OPT}{RESIZED}{steps('base', 'opt')}"),
    main(f"{BASE}{OPT}base, opt = accelerator.prepare(base, opt)\n{LORA}{steps('model', 'opt')}"),
    main(f"{BASE}{OPT}engine = Engine(base, opt)\n{RESIZED}engine.run(data)\nloss.backward()\n"),
    "class Training:\n    def __init__(self, base):\n        self.base = base\n"
    "        self.opt = torch.optim.AdamW(self.base.parameters())\n"
    "        self.base.resize_token_embeddings(9)\n    def run(self):\n"
    "        for x in data:\n            self.base(x).loss.backward()\n"
    "            self.opt.step()\n",
]


@pytest.mark.parametrize("code", ENDED)
def test_what_changes_after_the_last_step_of_an_optimizer(code: str) -> None:
    found = codes(HEAD + code)
    assert not {"optimizer-before-parameters", "step-without-loss"} & found.keys(), found


@pytest.mark.parametrize("code", AT_WORK)
def test_what_changes_before_an_optimizer_steps(code: str) -> None:
    assert "optimizer-before-parameters" in codes(HEAD + code)


DISTILLED = """
def train_teacher(loader):
    teacher = nn.Sequential(nn.Linear(2, 8), nn.Dropout(0.1), nn.Linear(8, 2))
    opt = torch.optim.Adam(teacher.parameters())
    for x, y in loader:
        loss = F.cross_entropy(teacher(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return {returned}
def main():
    {call} = train_teacher(loader)
    {made}
    for x, y in loader:
        with torch.no_grad():
            z = teacher(x)
        loss = F.mse_loss(student(x), z)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
main()
"""
NEW = "student = nn.Linear(2, 2); optimizer = torch.optim.Adam(student.parameters())"
SAME = "teacher = student.eval()"


@pytest.mark.parametrize(
    ("returned", "call", "made"),
    [
        ("teacher.eval().requires_grad_(False)", "teacher", NEW),
        ("teacher.eval()", "teacher", NEW),
        ("teacher", "net", f"teacher = net.eval(); {NEW}"),
    ],
)
def test_a_teacher_that_was_trained_before(returned: str, call: str, made: str) -> None:
    found = codes(HEAD + DISTILLED.format(returned=returned, call=call, made=made))
    assert not {"copy-is-the-same-object", "eval-left-on"} & found.keys(), found


@pytest.mark.parametrize(
    ("returned", "call", "made"),
    [
        ("teacher", "student", f"{SAME}; optimizer = torch.optim.Adam(student.parameters())"),
        ("teacher, opt", "student, optimizer", SAME),
    ],
)
def test_a_teacher_that_trains_on(returned: str, call: str, made: str) -> None:
    found = codes(HEAD + DISTILLED.format(returned=returned, call=call, made=made))
    assert {"copy-is-the-same-object", "eval-left-on"} <= found.keys(), found


TRAIN = """
def train(net, loader):
    opt = torch.optim.Adam(net.parameters())
    for x, y in loader:
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if not loss.isfinite():
            return
one = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
{}
"""


def test_a_function_that_trains_another_network_after_eval() -> None:
    other = "train(one, a)\none.eval()\ntwo = nn.Linear(2, 2)\ntrain(two, a)"
    assert "eval-left-on" not in codes(HEAD + TRAIN.format(other))
    assert "eval-left-on" in codes(HEAD + TRAIN.format("one.eval()\ntrain(one, a)"))


WRAPPED = """
net = nn.Linear(2, 2)
other = nn.Linear(2, 2)
opt = torch.optim.Adam(net.parameters())
{}
for x, y in loader:
    loss = F.cross_entropy(out(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("out = nn.parallel.DistributedDataParallel(net)", False),
        ("out = accelerator.prepare(net)", False),
        ("out = get_peft_model(net, LoraConfig())", False),
        ("out = nn.parallel.DistributedDataParallel(other)", True),
        ("out = other", True),
    ],
)
def test_a_loss_through_a_wrapper_is_a_loss_of_the_network(line: str, said: bool) -> None:
    assert ("step-without-loss" in codes(HEAD + WRAPPED.format(line))) == said

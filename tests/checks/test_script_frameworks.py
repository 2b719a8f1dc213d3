"""Mistakes in scripts of transformers, Lightning and FSDP, each beside what is sound."""

from __future__ import annotations

import pytest
from script_code import codes

TOKENS = """
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained("gpt2")
model = AutoModelForCausalLM.from_pretrained("gpt2")
for texts in loader:
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    labels = batch["input_ids"].clone()
    labels[labels == {}] = -100
    model(**batch, labels=labels).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
RANKED = """
import os
from transformers import Trainer, TrainingArguments
args = TrainingArguments("out", {option})
trainer = Trainer(model=model, args=args, train_dataset=data)
trainer.train()
{save}
"""
ON_ONE = "if args.local_rank == 0:\n    trainer.save_model()"
MANUAL = """
import lightning as L
class Gan(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
    def training_step(self, batch, _):
        opt_g, opt_d = self.optimizers()
        self.manual_backward(self.loss(batch))
        {}
"""
RESUMED = """
import torch
class Trainer:
    def __init__(self, net):
        self.net = net
        self.opt = torch.optim.Adam(net.parameters())
        self.step = 0
    def save(self):
        data = {{"step": self.step, "model": self.net.state_dict(){saved}}}
        torch.save(data, "last.pt")
    def load(self):
        data = torch.load("last.pt")
        self.step = data["step"]
        self.net.load_state_dict(data["model"])
        {loaded}
    def train(self):
        while self.step < 100:
            data = next(self.batches)
            self.net(data).mean().backward()
            self.opt.step()
            self.opt.zero_grad()
            self.step += 1
"""
FSDP = """
import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
model = FSDP(model)
optimizer = torch.optim.AdamW(model.parameters())
{}
for x in loader:
    model(x).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
SHARDED = "FSDP.optim_state_dict_to_load(model, optimizer, full)"
EVERY = """
for step in range(100):
    model(x).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if {}:
        model.save_pretrained("out")
"""
LOAD = "import torch\nnet = torch.nn.Linear(2, 2)\n{}\nnet(x).backward()\n"
PREFERENCES = """
import torch.nn.functional as F
def loss(chosen, rejected, eps):
    one = -F.logsigmoid(chosen - rejected)
    other = -F.logsigmoid(rejected - chosen)
    return {}
loss(a, b, 0.1).mean().backward()
"""
GROUPS = """
while episode < 100:
    episode += args.num_prompts * args.num_samples
    grouped = rewards.view(-1, args.num_samples)
    loss(grouped).backward()
"""
CONTEXT = """
import torch
def cast(precision):
    if precision == "amp":
        return torch.autocast("cuda", dtype=torch.bfloat16)
    return torch.autocast("cuda", enabled=False)
def train(precision):
    around = cast(precision)
    for x in loader:
        with around:
            loss = model(x).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
train("amp")
"""


@pytest.mark.parametrize(
    ("slug", "wrong", "right"),
    [
        (
            "padding-in-labels",
            TOKENS.format("tokenizer.pad_token"),
            TOKENS.format("tokenizer.pad_token_id"),
        ),
        (
            "collective-on-one-rank",
            RANKED.format(option="deepspeed='zero3.json'", save=ON_ONE),
            RANKED.format(option="deepspeed='zero3.json'", save="trainer.save_model()"),
        ),
        (
            "zeroed-before-step",
            MANUAL.format("opt_g.zero_grad(); opt_g.step()"),
            MANUAL.format("opt_d.zero_grad(); opt_g.step()"),
        ),
        (
            "optimizer-not-restored",
            RESUMED.format(saved="", loaded="pass"),
            RESUMED.format(
                saved=', "opt": self.opt.state_dict()',
                loaded='self.opt.load_state_dict(data["opt"])',
            ),
        ),
        (
            "result-discarded",
            FSDP.format(SHARDED),
            FSDP.format(f"optimizer.load_state_dict({SHARDED})"),
        ),
        (
            "state-dict-result-as-model",
            LOAD.format('net.load_state_dict(torch.load("x"), map_location="cpu")'),
            LOAD.format('net.load_state_dict(torch.load("x", map_location="cpu"))'),
        ),
        (
            "loop-stands-still",
            EVERY.format("main and (step % 10)"),
            EVERY.format("main and not (step % 10)"),
        ),
        (
            "preference-sign",
            PREFERENCES.format("other"),
            PREFERENCES.format("(1 - eps) * one + eps * other"),
        ),
    ],
)
def test_a_mistake_is_seen_and_its_look_alike_is_not(slug: str, wrong: str, right: str) -> None:
    assert slug in codes(wrong)
    assert slug not in codes(right)


def test_a_model_that_one_rank_saves_needs_no_others_without_shards() -> None:
    code = RANKED.format(option="bf16=True", save=ON_ONE)
    assert "collective-on-one-rank" not in codes(code)


@pytest.mark.parametrize(
    ("slug", "code"), [("groups-of-rollouts", GROUPS), ("result-discarded", CONTEXT)]
)
def test_it_stays_silent(slug: str, code: str) -> None:
    assert slug not in codes(code)

"""Mistakes with schedules, monitors, generators, ranks and prompts, and what is healthy."""

from __future__ import annotations

import pytest
from script_code import codes

LIGHTNING = """
import lightning as L
import torch
class Lit(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(2, 2)
        {init}
    def training_step(self, batch, _):
        {step}
    def configure_optimizers(self):
        opt = torch.optim.SGD(self.parameters(), lr=0.1)
        sched = torch.optim.lr_scheduler.OneCycleLR(opt, 0.1, {length})
        return {returned}
ckpt = L.pytorch.callbacks.ModelCheckpoint({checkpoint})
trainer = L.Trainer(max_epochs=3, callbacks=[ckpt]{options})
trainer.fit(Lit(), loader)
"""
MANUAL = {
    "init": "self.automatic_optimization = False",
    "step": "self.manual_backward(self.net(batch).mean())",
}


def lightning(**parts: str) -> str:
    healthy = {
        "init": "pass",
        "step": "return self.net(batch).mean()",
        "length": "total_steps=30",
        "returned": "[opt], [sched]",
        "checkpoint": "",
        "options": "",
    }
    return LIGHTNING.format(**(healthy | parts))


STEPS = "total_steps=self.trainer.estimated_stepping_batches"
RESIZE = """
import torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("x")
{}
for x in loader:
    model(x).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
GROUPS = """a, b = [], []
for n, p in model.named_parameters():
    (a if "bias" in n else b).append(p)
optimizer = torch.optim.AdamW([{"params": a}, {"params": b}])"""
GROW = "model.resize_token_embeddings(100)"
RANDOM = """
import numpy as np
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __init__(self):
        self.rng = np.random.default_rng(0)
    def __getitem__(self, i):
        {}
        return self.rng.random()
loader = DataLoader(Rows(), {})
for x in loader:
    model(x).backward()
    optimizer.step()
"""
RANKS = """
import math, sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
def mean(value):
    dist.all_reduce(value)
    return value
def evaluate(model):
    return mean(model.module.score())
model = DistributedDataParallel(Net().cuda())
for x in loader:
    {}
"""
GENERATE = """
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer
tok = AutoTokenizer.from_pretrained({})
model = AutoModelFor{}.from_pretrained("x").to("cuda").eval()
for i in range(9):
    batch = tok({}, padding=True, return_tensors="pt").to("cuda")
    model.generate({})
"""
COLLATE = """
import torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("x")
def collate(rows):
    ids = torch.stack(rows)
    return {{"input_ids": ids[:, :-1], "labels": ids[:, {}:]}}
for batch in loader:
    {}
    loss.backward()
    optimizer.step()
"""
SKIP = "loss = model(x).mean()\n    if {}:\n        {}\n    loss.backward()"


@pytest.mark.parametrize(
    ("slug", "severity", "code"),
    [
        ("schedule-in-wrong-unit", "warn", lightning(length=STEPS)),
        (
            "schedule-in-wrong-unit",
            "warn",
            lightning(length="total_steps=9 * self.trainer.num_training_batches"),
        ),
        ("schedule-in-wrong-unit", "warn", lightning(length="epochs=3, steps_per_epoch=n")),
        (
            "schedule-in-wrong-unit",
            "warn",
            lightning(length=STEPS, returned='{"optimizer": opt, "lr_scheduler": sched}'),
        ),
        ("training-step-result", "warn", lightning(checkpoint='monitor="val/acc"')),
        ("training-step-result", "warn", lightning(checkpoint='monitor="val_mAP", mode="min"')),
        ("training-step-result", "warn", lightning(checkpoint='monitor="val_loss", mode="max"')),
        ("training-step-result", "fail", lightning(**MANUAL, options=", gradient_clip_val=1.0")),
        (
            "training-step-result",
            "fail",
            lightning(**MANUAL, options=", accumulate_grad_batches=2"),
        ),
        ("optimizer-before-parameters", "warn", RESIZE.format(f"{GROUPS}\n{GROW}")),
        ("loader-settings", "warn", RANDOM.format("pass", "num_workers=4")),
        (
            "collective-on-one-rank",
            "fail",
            RANKS.format("if dist.get_rank() == 0:\n        evaluate(model)"),
        ),
        ("labels-shifted-twice", "fail", COLLATE.format(1, "loss = model(**batch).loss")),
        (
            "generation-padded-right",
            "warn",
            GENERATE.format('"gpt2"', "CausalLM", "rows[i : i + 8]", "**batch"),
        ),
        (
            "generation-padded-right",
            "warn",
            GENERATE.format(
                '"y", padding_side="right"', "CausalLM", "['a', 'b']", "batch.input_ids"
            ),
        ),
    ],
)  # fmt: skip
def test_it_fires(slug: str, severity: str, code: str) -> None:
    assert codes(code).get(slug) == severity


@pytest.mark.parametrize(
    ("slug", "code"),
    [
        ("schedule-in-wrong-unit", lightning()),
        ("schedule-in-wrong-unit", lightning(length="epochs=30, steps_per_epoch=1")),
        (
            "schedule-in-wrong-unit",
            lightning(length=STEPS, returned='[opt], [{"scheduler": sched, "interval": "step"}]'),
        ),
        (
            "schedule-in-wrong-unit",
            lightning(length=STEPS, returned='[opt], [dict(scheduler=sched, interval="step")]'),
        ),
        ("schedule-in-wrong-unit", lightning(length=STEPS, **MANUAL)),
        ("training-step-result", lightning(checkpoint='monitor="val_acc", mode="max"')),
        ("training-step-result", lightning(checkpoint='monitor="val_loss"')),
        ("training-step-result", lightning(checkpoint='monitor="dice_loss"')),
        ("training-step-result", lightning(checkpoint='monitor="val_acc", save_top_k=-1')),
        ("training-step-result", lightning(checkpoint='monitor="val_acc", mode=mode')),
        ("training-step-result", lightning(checkpoint='monitor="score"')),
        ("training-step-result", lightning(options=", gradient_clip_val=1.0")),
        ("training-step-result", lightning(**MANUAL, options=", gradient_clip_val=None")),
        ("training-step-result", lightning(**MANUAL, options=", accumulate_grad_batches=1")),
        ("optimizer-before-parameters", RESIZE.format(f"{GROW}\n{GROUPS}")),
        ("loader-settings", RANDOM.format("pass", "num_workers=0")),
        ("loader-settings", RANDOM.format("pass", "num_workers=4, worker_init_fn=seed")),
        ("loader-settings", RANDOM.format("self.rng = np.random.default_rng(i)", "num_workers=4")),
        ("collective-on-one-rank", RANKS.format("score = evaluate(model)")),
        (
            "collective-on-one-rank",
            RANKS.format("if dist.get_rank() == 0:\n        evaluate(model)\n    evaluate(model)"),
        ),
        ("labels-shifted-twice", COLLATE.format("", "loss = model(**batch).loss")),
        ("labels-shifted-twice", COLLATE.format(1, "loss = own(model(**batch).logits, batch)")),
        (
            "generation-padded-right",
            GENERATE.format(
                '"gpt2", padding_side="left"', "CausalLM", "rows[i : i + 8]", "**batch"
            ),
        ),
        (
            "generation-padded-right",
            GENERATE.format('"gpt2"', "Seq2SeqLM", "rows[i : i + 8]", "**batch"),
        ),
        ("generation-padded-right", GENERATE.format('"gpt2"', "CausalLM", "prompt", "**batch")),
        (
            "generation-padded-right",
            GENERATE.format('"other"', "CausalLM", "rows[i : i + 8]", "**batch"),
        ),
        (
            "generation-padded-right",
            GENERATE.format('"gpt2"', "CausalLM", "rows[i : i + 8]", "**batch")
            .replace("model =", 'tok.padding_side = "left"\nmodel ='),
        ),
    ],
)  # fmt: skip
def test_it_stays_silent(slug: str, code: str) -> None:
    assert slug not in codes(code)


def ranks(inside: str) -> str:
    return RANKS.replace("dist.all_reduce(value)", "pass").format(inside)


@pytest.mark.parametrize("test", ["not torch.isfinite(loss)", "math.isnan(loss.item())"])
def test_each_rank_decides_alone_whether_it_calls_backward(test: str) -> None:
    assert codes(ranks(SKIP.format(test, "continue"))).get("collective-on-one-rank") == "warn"


@pytest.mark.parametrize(
    "inside",
    [
        SKIP.format("not math.isfinite(loss)", "sys.exit(1)"),
        SKIP.format("torch.isnan(loss)", "raise ValueError('loss')"),
        SKIP.format("torch.isnan(loss)", "loss = loss * 0"),
        SKIP.format("torch.isnan(agree(dist.all_reduce(loss)))", "continue"),
    ],
)
def test_a_skip_that_ends_the_run_or_is_agreed_is_healthy(inside: str) -> None:
    assert "collective-on-one-rank" not in codes(ranks(inside))

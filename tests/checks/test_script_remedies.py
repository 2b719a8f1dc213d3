"""The remedy of a finding is that of its own cause."""

from __future__ import annotations

import textwrap

import pytest
from script_code import NO_MACHINE, codes

from doctor.checks.script.lint import lint
from doctor.checks.script.remedies import REMEDIES
from doctor.checks.script.table import BY_CODE, RELEVANT
from doctor.script.python import read_python

TRAINER = """
from transformers import AutoModelForCausalLM, DataCollatorWithPadding, Trainer, TrainingArguments
class Pairs:
    def __getitem__(self, i):
        ids = self.rows[i]
        return {"input_ids": ids, "labels": ids}
model = AutoModelForCausalLM.from_pretrained("gpt2")
args = TrainingArguments("out", metric_for_best_model="eval_loss", greater_is_better=True)
trainer = Trainer(model, args, train_dataset=Pairs(), data_collator=DataCollatorWithPadding(tok))
trainer.train()
"""
LIGHTNING = """
import pytorch_lightning as pl
from pytorch_lightning.callbacks import EarlyStopping
class Net(pl.LightningModule):
    def training_step(self, batch, _):
        loss = self(batch).mean()
        self.log("val_loss", loss)
        return {"train": loss}
trainer = pl.Trainer(callbacks=[EarlyStopping(monitor="val_loss", mode="max")])
"""
ACCUMULATED = """
import torch
from contextlib import nullcontext
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
torch.distributed.init_process_group("nccl")
sampler = DistributedSampler(train)
loader = DataLoader(train, {data})
model = DDP(torch.nn.Linear(4, 4))
opt = torch.optim.SGD(model.parameters(), lr=0.1)
updates = len(loader) // accum * epochs
sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: 1 - s / updates)
for epoch in range(epochs):
    sampler.set_epoch(epoch)
    for i, x in enumerate(loader):
        last = (i + 1) % accum == 0
        {zero}
        with {context}:
            (model(x).mean() / accum).backward()
        {before}
        if last:
            opt.step()
            {inside}
        {after}
"""
SOUND = {
    "data": "sampler=sampler", "zero": "pass", "before": "pass", "after": "pass",
    "context": "nullcontext() if last else model.no_sync()",
    "inside": "sched.step(); opt.zero_grad()",
}  # fmt: skip


def fixes(code: str) -> dict[str, str]:
    """The part of a message that is tested -> the remedy."""
    script = read_python("train.py", textwrap.dedent(code).encode(), relevant=RELEVANT)
    return {hit.message: hit.fix for hit in lint(script, NO_MACHINE)}


@pytest.mark.parametrize(
    ("code", "part", "fix"),
    [
        (TRAINER, "greater_is_better=True", "Pass greater_is_better=False."),
        (TRAINER, "DataCollatorWithPadding", "Use DataCollatorForSeq2Seq(tokenizer), which"),
        (LIGHTNING, "keeps the max of val_loss", 'Pass mode="min".'),
        (LIGHTNING, "without the key loss", 'Return {"loss": loss, ...}.'),
    ],
)
def test_each_cause_has_its_own_remedy(code: str, part: str, fix: str) -> None:
    found = [own for message, own in fixes(code).items() if part in message]
    assert len(found) == 1
    assert found[0].startswith(fix)


def test_the_table_is_of_rules_and_no_part_hides_another() -> None:
    for code, parts in REMEDIES.items():
        assert code in BY_CODE
        names = list(parts)
        for n, later in enumerate(names):
            assert not any(earlier in later for earlier in names[:n]), (code, later)


@pytest.mark.parametrize(
    ("changed", "slug"),
    [
        ({}, ""),
        ({"data": "shuffle=True"}, "ddp-without-sampler"),
        ({"data": "shuffle=True, sampler=sampler"}, "sampler-with-shuffle"),
        ({"data": "batch_sampler=Batches(sampler)"}, ""),
        ({"zero": "opt.zero_grad()"}, "zeroed-while-accumulating"),
        ({"zero": "if i % accum == 0: opt.zero_grad()"}, ""),
        ({"context": "nullcontext() if not last else model.no_sync()"}, "no-sync-in-wrong-batch"),
        ({"context": "model.no_sync() if last else nullcontext()"}, "no-sync-in-wrong-batch"),
        ({"context": "model.no_sync() if not last else nullcontext()"}, ""),
        ({"inside": "opt.zero_grad()", "after": "sched.step()"}, "schedule-in-wrong-unit"),
        ({"inside": "opt.zero_grad()", "after": "if last: sched.step()"}, ""),
    ],
)
def test_accumulation_under_a_name(changed: dict[str, str], slug: str) -> None:
    found = codes(ACCUMULATED.format(**(SOUND | changed)))
    assert slug in found if slug else not found


def test_a_schedule_before_a_seldom_step_goes_into_its_branch() -> None:
    code = ACCUMULATED.format(**(SOUND | {"inside": "opt.zero_grad()", "before": "sched.step()"}))
    fix = fixes(code)["sched.step() comes before the optimizer's first step"]
    assert "into the branch of optimizer.step()" in fix
    every = code.replace("if last:", "if True:")
    assert not fixes(every)["sched.step() comes before the optimizer's first step"]

"""Mistakes that are spread over functions, methods and names, and what only looks like them."""

from __future__ import annotations

import json

import pytest
from script_code import codes

from doctor.checks.script.lint import lint
from doctor.checks.script.table import BY_CODE
from doctor.facts.script_machine import ScriptMachine
from doctor.script.python import read_notebook

LIGHTNING = """
import lightning as L
import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
class Lit(L.LightningModule):
    def training_step(self, batch, _):
        return self.net(batch).mean()
    def configure_optimizers(self):
        opt = torch.optim.SGD(self.parameters(), lr=0.1)
        total = {}
        warm = LinearLR(opt, 0.01, total_iters=5)
        cosine = CosineAnnealingLR(opt, total - 5)
        sched = SequentialLR(opt, [warm, cosine], [5])
        return {{"optimizer": opt, "lr_scheduler": {{"scheduler": sched{}}}}}
"""
COLLECTED = """
import torch
class Runner:
    def __init__(self):
        self.net = torch.nn.Linear(2, 1)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
    def fit(self):
        for x, y in train:
            self.net.train()
            loss = (self.net(x) - y).abs().mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        self.validate()
    def validate(self):
        self.net.eval()
        outs = []
        for x, y in val:
            outs.append({})
        return torch.cat(outs)
"""
PREPARED = """
import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("x", load_in_4bit=True)
{}
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
for batch in loader:
    optimizer.zero_grad()
    model(**batch).loss.backward()
    optimizer.step()
"""
WRAP = 'model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM"))'
PREPARE = "model = prepare_model_for_kbit_training(model)"
TABLE = """
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
y = np.log(df["price"].values).astype("float32")
scaled = (y - y.mean()) / y.std()
loader = DataLoader(TensorDataset(torch.from_numpy(x), torch.from_numpy(scaled)))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    def forward(self, x):
        return self.body(x)
net = Net()
mse = nn.MSELoss()
optimizer = torch.optim.Adam(net.parameters())
for xb, yb in loader:
    optimizer.zero_grad()
    loss = mse(net(xb){}, yb)
    loss.backward()
    optimizer.step()
"""
RESUMED = """
import torch
def warmup(opt, n):
    return torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, s / n))
model = torch.nn.Linear(2, 2)
opt = torch.optim.AdamW(model.parameters())
sched = warmup(opt, 100)
ck = torch.load("last.pt")
model.load_state_dict(ck["model"])
opt.load_state_dict(ck["opt"])
start = ck["epoch"] + 1
{}
for epoch in range(start, 9):
    for x in loader:
        opt.zero_grad()
        model(x).mean().backward()
        opt.step()
        sched.step()
    torch.save({{"model": model.state_dict(), "opt": opt.state_dict(), "epoch": epoch{}}},
               "last.pt")
"""
SHARED = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    right = torch.zeros((), device="cuda")
    for x, y in loader:
        right += (model(x).argmax(-1) == y).sum()
    {}
    return right.item() / len(loader.dataset)
train = DataLoader(a, sampler=DistributedSampler(a))
val = DataLoader(b{})
model = DistributedDataParallel(torch.nn.Linear(2, 2).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    train.sampler.set_epoch(epoch)
    for x, y in train:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    print(evaluate(model, val))
"""
WEIGHED = """
import torch
from torch.utils.data import DataLoader, WeightedRandomSampler
counts = torch.bincount(labels)
weights = {}
loader = DataLoader(data, sampler=WeightedRandomSampler(weights, len(data)))
for x, y in loader:
    optimizer.zero_grad()
    model(x).backward()
    optimizer.step()
"""
WINDOWS = """
import numpy as np
import torch
from sklearn.model_selection import train_test_split
SIZE = 24 * 7
def cut(series, step={}):
    xs, ys = [], []
    for i in range(0, len(series) - SIZE, step):
        xs.append(series[i:i + SIZE])
        ys.append(series[i + SIZE])
    return np.stack(xs), np.stack(ys)
x, y = cut(series)
x_train, x_val, y_train, y_val = train_test_split(x, y, test_size=0.2{})
for x in x_train:
    optimizer.zero_grad()
    model(x).backward()
    optimizer.step()
"""
PROCESSES = """
from accelerate import Accelerator
from transformers import get_scheduler
acc = Accelerator()
model, opt, train = acc.prepare(model, opt, train)
total = 3 * len(train)
{}
sched = get_scheduler("linear", opt, num_warmup_steps=5, num_training_steps={})
sched = acc.prepare(sched)
acc.print(f"{{total}} updates on {{acc.num_processes}} processes")
for batch in train:
    acc.backward(model(**batch).loss)
    opt.step()
    sched.step()
    opt.zero_grad()
"""
HEAD = """
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForSequenceClassification, Trainer
model = AutoModelForSequenceClassification.from_pretrained("x"{})
model = get_peft_model(model, LoraConfig(r=8{}))
Trainer(model=model, train_dataset=data).train()
"""
VELOCITY = """
import torch
import torch.nn.functional as F
from diffusers import DDPMScheduler
schedule = DDPMScheduler.from_pretrained("x", prediction_type="{}")
for x in loader:
    noise = torch.randn_like(x)
    t = torch.randint(0, 1000, (len(x),))
    pred = unet(schedule.add_noise(x, noise, t), t).sample
    target = {}
    loss = F.mse_loss(pred, {})
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
GATHERED = """
import torch
import torch.distributed as dist
import torch.nn.functional as F
def gather(t):
    out = [torch.empty_like(t) for _ in range(dist.get_world_size())]
    dist.all_gather(out, t)
    {}
    return torch.cat({})
def contrast(a, b, scale):
    {}
    logits = scale * a @ b.t()
    return F.cross_entropy(logits, torch.arange(len(a)) + first_of_rank(a))
for x, y in loader:
    optimizer.zero_grad()
    loss = contrast(*model(x, y), 1.0)
    loss.backward()
    optimizer.step()
"""
BOXES = """
import torch
from torchvision.models.detection import {}_resnet50_fpn
NAMES = [{}]
LABEL = {{name: i for i, name in enumerate({})}}
class Images(torch.utils.data.Dataset):
    def __getitem__(self, i):
        labels = torch.tensor([LABEL[o["name"]] for o in self.items[i]])
        return self.images[i], {{"boxes": self.boxes[i], "labels": labels}}
model = {}_resnet50_fpn(num_classes=len(NAMES) + 1)
for images, targets in torch.utils.data.DataLoader(Images()):
    loss = sum(model(images, targets).values())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
RCNN = "fasterrcnn"
BOTH = "a, b = gather(a), gather(b)"
OF_CLASSES = "[1.0 / counts[c] for c in range(len(data.classes))]"
BATCHES = "int(self.trainer.estimated_stepping_batches)"
SAMPLED = ", sampler=DistributedSampler(b, shuffle=False)"


@pytest.mark.parametrize(
    ("slug", "code"),
    [
        ("schedule-in-wrong-unit", LIGHTNING.format(BATCHES, "")),
        ("evaluation-keeps-graphs", COLLECTED.format("self.net(x).squeeze(1).cpu()")),
        ("adapter-frozen", PREPARED.format(f"{WRAP}\n{PREPARE}")),
        ("loss-broadcast", TABLE.format("")),
        ("optimizer-not-restored", RESUMED.format("", "")),
        ("metric-not-gathered", SHARED.format("", SAMPLED)),
        ("weights-of-classes", WEIGHED.format(OF_CLASSES)),
        ("weights-of-classes", WEIGHED.format("[len(data) / n for n in counts.values()]")),
        ("overlapping-windows-split", WINDOWS.format(1, "")),
        ("accumulation-of-accelerate", PROCESSES.format("", "total")),
        ("new-tokens-frozen", HEAD.format(", num_labels=7", "")),
        ("diffusion-formula", VELOCITY.format("v_prediction", "noise", "noise")),
        ("views-compared", GATHERED.format("", "out", BOTH)),
        ("boxes", BOXES.format(RCNN, '"cat", "dog"', "NAMES", RCNN)),
    ],
)
def test_what_is_wrong_is_seen_through_names(slug: str, code: str) -> None:
    assert codes(code).get(slug) in ("fail", "warn")


@pytest.mark.parametrize(
    ("slug", "code"),
    [
        ("schedule-in-wrong-unit", LIGHTNING.format(BATCHES, ', "interval": "step"')),
        ("schedule-in-wrong-unit", LIGHTNING.format("self.trainer.max_epochs", "")),
        ("evaluation-keeps-graphs", COLLECTED.format("self.net(x).squeeze(1).detach()")),
        ("evaluation-keeps-graphs", COLLECTED.format("self.net(x).argmax(1).cpu()")),
        ("adapter-frozen", PREPARED.format(f"{PREPARE}\n{WRAP}")),
        ("loss-broadcast", TABLE.format(".squeeze(-1)")),
        (
            "optimizer-not-restored",
            RESUMED.format('sched.load_state_dict(ck["s"])', ', "s": sched.state_dict()'),
        ),
        ("metric-not-gathered", SHARED.format("dist.all_reduce(right)", SAMPLED)),
        ("metric-not-gathered", SHARED.format("", "")),
        ("weights-of-classes", WEIGHED.format(f"torch.tensor({OF_CLASSES})[labels]")),
        ("weights-of-classes", WEIGHED.format("[1.0 / counts[c] for c in data.targets]")),
        ("overlapping-windows-split", WINDOWS.format(1, ", shuffle=False")),
        ("overlapping-windows-split", WINDOWS.format("SIZE", "")),
        ("accumulation-of-accelerate", PROCESSES.format("n = acc.num_processes", "total * n")),
        ("new-tokens-frozen", HEAD.format(", num_labels=7", ', task_type="SEQ_CLS"')),
        ("new-tokens-frozen", HEAD.format(", num_labels=7", ', modules_to_save=["score"]')),
        ("new-tokens-frozen", HEAD.format("", "")),
        ("diffusion-formula", VELOCITY.format("epsilon", "noise", "noise")),
        ("views-compared", GATHERED.format("out[dist.get_rank()] = t", "out", BOTH)),
        ("views-compared", GATHERED.format("", "[t, *out]", BOTH)),
        ("boxes", BOXES.format(RCNN, '"cat", "dog"', "NAMES, 1", RCNN)),
        ("boxes", BOXES.format(RCNN, '"__background__", "dog"', "NAMES", RCNN)),
        ("boxes", BOXES.format("retinanet", '"cat", "dog"', "NAMES", "retinanet")),
        ("views-compared", GATHERED.format("", "out", "b = gather(b)")),
        (
            "diffusion-formula",
            VELOCITY.format("v_prediction", "schedule.get_velocity(x, noise, t)", "target"),
        ),
    ],
)
def test_what_is_right_stays_silent(slug: str, code: str) -> None:
    assert slug not in codes(code)


@pytest.mark.parametrize(
    ("line", "severity"),
    [
        ('%pip install -q "transformers==5.2.0" datasets', "fail"),
        ("!pip install 'transformers[torch]>=5'", "fail"),
        ("!pip install transformers==4.40.0", None),
        ("!pip install transformers", "note"),
    ],
)
def test_a_notebook_pins_what_it_installs(line: str, severity: str | None) -> None:
    code = """
from transformers import Trainer, TrainingArguments
Trainer(model, TrainingArguments(evaluation_strategy="no")).train()
"""
    cells = [{"cell_type": "code", "source": text} for text in (line, code)]
    script = read_notebook("a.ipynb", json.dumps({"cells": cells}).encode())
    found = {BY_CODE[hit.code].slug: hit.severity for hit in lint(script, ScriptMachine())}
    assert found.get("trainer-argument-removed") == severity

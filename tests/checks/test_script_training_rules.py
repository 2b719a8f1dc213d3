"""Traps of the rules on loops, losses, ownership and distribution: what they stay silent on, and
what they leave undecided. What each reports is the example of its page.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import replace

import pytest
from script_code import codes

from doctor.checks.script.lint import lint
from doctor.checks.script.rule import Match
from doctor.checks.script.table import BY_CODE
from doctor.checks.script.training import Training
from doctor.facts.script_machine import ScriptMachine
from doctor.script.python import read_python

LOOP = """
import torch
from torch import nn
import torch.nn.functional as F
model = nn.Linear(2, 2)
optimizer = torch.optim.Adam(model.parameters())
total, outputs = 0, []
for i, (x, y) in enumerate(loader):
    optimizer.zero_grad()
    loss = model(x).sum()
{}
    optimizer.step()
{}
"""

MODULE = """
import torch
from torch import nn
import torch.nn.functional as F
class Net(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc = nn.Linear(dim, 10)
{}
    def forward(self, x):
{}
        return x
"""

DDP = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
rank = dist.get_rank()
{}
model = DistributedDataParallel(Net().to(rank))
for epoch in range(3):
    for x in loader:
        optimizer.zero_grad()
        model(x).backward()
        optimizer.step()
{}
"""

EPOCHS = """
import torch
from torch.optim import lr_scheduler
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = {}
for epoch in range(epochs):
    for x in loader:
        optimizer.zero_grad()
        loss = model(x)
        loss.backward()
        optimizer.step()
{}
"""


def indented(text: str, columns: int) -> str:
    return textwrap.indent(textwrap.dedent(text).strip("\n"), " " * columns)


def loop(inside: str, after: str = "") -> str:
    return LOOP.format(indented(inside, 4), textwrap.dedent(after))


def module(init: str, forward: str = "x = self.fc(x)") -> str:
    return MODULE.format(indented(init, 8), indented(forward, 8))


def ddp(before: str = "", after: str = "") -> str:
    return DDP.format(textwrap.dedent(before), textwrap.dedent(after))


def epochs(scheduler: str, end: str) -> str:
    return EPOCHS.format(scheduler, end)


STEP = "loss.backward()"
REBUILT = (
    f"z = torch.tensor(model(x).tolist(), requires_grad=True)\nloss = F.mse_loss(z, y)\n{STEP}"
)

PLATEAU = "ReduceLROnPlateau(optimizer)"
EITHER = f"lr_scheduler.{PLATEAU} if plateau else lr_scheduler.StepLR(optimizer, 3)"
BY_TEST = f"""None
if plateau:
    scheduler = lr_scheduler.{PLATEAU}
else:
    scheduler = lr_scheduler.StepLR(optimizer, 3)"""
STEP_BY_TEST = """
    if plateau:
        scheduler.step(val_loss)
    else:
        scheduler.step()
"""
SECOND_PHASE = f"""
    scheduler.step()
scheduler = lr_scheduler.{PLATEAU}
for epoch in range(epochs):
    scheduler.step(val_loss)
"""

CARRIED = """
import torch
from torch import nn
class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(4, 4)
    def forward(self, x, h):
        {}
        return self.rnn(x, h)
model = {}
h = torch.zeros(1, 2, 4)
for x, y in loader:
    out, h = model(x, h)
    loss = nn.functional.mse_loss(out, y)
    loss.backward()
"""

TASKS = """
import torch
model = torch.nn.Linear(2, 2)
for task in tasks:
    {}
    optimizer = torch.optim.Adam(model.parameters())
    loss = model(task.x).sum()
    loss.backward()
    optimizer.step()
"""

BEST = """if good:
    state = model.state_dict()
    {}
"""
USED = "model.load_state_dict(state)"

TWO = """
import torch
g, d = Generator(), Discriminator()
optimizer_g = torch.optim.Adam({})
optimizer_d = torch.optim.Adam({})
for x in loader:
    optimizer_g.zero_grad()
    d(g(x)).mean().backward()
    optimizer_g.step()
    {}.zero_grad()
    d(x).mean().backward()
    optimizer_d.step()
"""
OWN = ("g.parameters()", "d.parameters()")
EPOCH = """
import torch
def train(model, opt):
    for x in loader:
        model(x).mean().backward()
        opt.step()
optimizer = {}
for epoch in range(9):
    {}
"""
ADAM = "torch.optim.Adam(model.parameters())"
CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
MICRO = """
import torch
for i, x in enumerate(loader):
    loss = model(x) / 4
    loss.backward()
    {}
    if (i + 1) % 4 == 0:
        {}
        optimizer.step()
        optimizer.zero_grad()
"""
GATHER = """
from accelerate import Accelerator
accelerator = Accelerator(gradient_accumulation_steps={})
for x in loader:
    with accelerator.accumulate(model):
        accelerator.backward(model(x).mean())
        {}
        optimizer.step()
        optimizer.zero_grad()
"""
OF_ACCELERATE = "accelerator.clip_grad_norm_(model.parameters(), 1.0)"
SUM = """
import torch
for x in loader:
    optimizer.zero_grad()
    a, b = model(x)
    part = {}
    loss = a.mean() + {}
    loss.backward()
    optimizer.step()
"""
THROUGH = """
import torch
from torch.nn.parallel import DistributedDataParallel
model = DistributedDataParallel(build())
optimizer = torch.optim.Adam(model.parameters())
for x in loader:
    optimizer.zero_grad()
    {}
    loss.backward()
    optimizer.step()
"""
SAMPLER = """
import torch
sampler = torch.utils.data.DistributedSampler(data)
loader = torch.utils.data.DataLoader(data, sampler=sampler)
for epoch in range(9):
    sampler.set_epoch({})
    for x in loader:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
"""
PARTS = "lr_scheduler.StepLR(optimizer, step_size={})"

SILENT = [
    ("zeroed-before-step", loop(f"{STEP}\noptimizer_d.zero_grad()")),
    ("zeroed-before-step", loop(f"{STEP}\nif i == 0:\n    optimizer.zero_grad()")),
    (
        "zeroed-before-step",
        loop(f"{STEP}\nkept = model.weight.grad\noptimizer.zero_grad()\nmodel.weight.grad = kept"),
    ),
    ("zero-grad-missing", loop(STEP)),
    ("zero-grad-missing", TWO.format(*OWN, "optimizer_d")),
    ("zero-grad-missing", TWO.format(*OWN, "d")),
    ("zero-grad-missing", TWO.format(*OWN, "both")),
    ("zero-grad-missing", TWO.format("g.parameters()", "g.head.parameters()", "g")),
    ("zero-grad-missing", EPOCH.format("make(model)", "train(model, optimizer)")),
    ("zero-grad-missing", EPOCH.format(ADAM, "other.train(model)")),
    (
        "zero-grad-missing",
        EPOCH.format(ADAM, "train(model, optimizer)").replace("model(x)", "run(x, opt)"),
    ),
    ("clipped-while-accumulating", MICRO.format("pass", CLIP)),
    ("clipped-while-accumulating", MICRO.format(f"if i % 4 == 3: {CLIP}", "pass")),
    ("clipped-while-accumulating", GATHER.format(1, OF_ACCELERATE)),
    (
        "clipped-while-accumulating",
        GATHER.format(4, f"if accelerator.sync_gradients: {OF_ACCELERATE}"),
    ),
    ("loss-detached", SUM.format("b.mean()", "part")),
    ("loss-detached", SUM.format("b.mean().item()", "part * b.mean()")),
    ("ddp-bypassed", THROUGH.format("loss = model.module.loss(model(x))")),
    ("ddp-bypassed", THROUGH.format("loss = model(x)\n    penalty = model.module.norm()")),
    ("set-epoch-missing", SAMPLER.format("epoch")),
    ("set-epoch-missing", SAMPLER.format("0") + "sampler.set_epoch(epoch)"),
    ("schedule-in-wrong-unit", epochs(PARTS.format("epochs // 3"), "    scheduler.step()")),
    ("schedule-in-wrong-unit", epochs(PARTS.format("total // 3"), "        scheduler.step()")),
    ("schedule-in-wrong-unit", epochs(PARTS.format("len(loader)"), "        scheduler.step()")),
    ("zero-grad-missing", "import torch\nfor x in loader:\n    step(x)\n    optimizer.zero_grad()"),
    ("clip-before-backward", loop(f"{STEP}\nnn.utils.clip_grad_norm_(model.parameters(), 1.0)")),
    (
        "clip-before-backward",
        """
        import torch
        for x in loader:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            model(x).backward()
        """,
    ),
    (
        "optimizer-made-each-step",
        """
        import torch
        for x in loader:
            delta = torch.zeros_like(x, requires_grad=True)
            optimizer = torch.optim.Adam([delta])
            optimizer.zero_grad()
            model(x + delta).backward()
            optimizer.step()
        """,
    ),
    (
        "optimizer-made-each-step",
        """
        import torch
        for fold in range(5):
            model = Net()
            optimizer = torch.optim.Adam(model.parameters())
            for x in loader:
                optimizer.zero_grad()
                model(x).backward()
                optimizer.step()
        """,
    ),
    (
        "optimizer-made-each-step",
        "import torch\nmodel = Net()\nfor x in loader:\n"
        "    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "    model(x).backward()\n    optimizer.step()\n    optimizer.zero_grad()",
    ),
    ("optimizer-never-steps", "import torch\noptimizer = torch.optim.Adam(p)\nrun(optimizer)"),
    (
        "optimizer-never-steps",
        "import torch\noptimizer = torch.optim.Adam(p)\nfor x in loader:\n"
        "    model(x).backward()\n    apply(optimizer)",
    ),
    ("graph-kept", loop(f"{STEP}\ntotal += loss.item()")),
    ("graph-kept", loop(f"{STEP}\ntotal += loss.detach() * x.size(0)")),
    ("graph-kept", loop(f"{STEP}\nloss = loss.item()\ntotal += loss")),
    ("graph-kept", loop(f"{STEP}\nwith torch.no_grad():\n    total += loss")),
    ("graph-kept", loop(f"{STEP}\ntotal += loss", "total.backward()")),
    ("graph-kept", loop(f"outputs.append(loss)\n{STEP}", "torch.stack(outputs).sum().backward()")),
    (
        "graph-kept",
        "import torch\nlosses = []\nfor _ in range(5):\n    loss = model(x)\n    loss.backward()\n"
        "    losses.append(loss)",
    ),
    ("accumulation-not-divided", loop("loss = loss / n\nloss.backward()\nif i % n == 0:\n    a()")),
    (
        "accumulation-not-divided",
        """
        import torch
        for i, x in enumerate(loader):
            loss = model(x)
            loss /= accumulate
            loss.backward()
            if (i + 1) % accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
        """,
    ),
    (
        "accumulation-not-divided",
        """
        import torch
        for i, x in enumerate(loader):
            loss = model(x)
            loss.backward()
            if (i + 1) % accumulate == 0:
                scale_grads(model, 1 / tokens)
                optimizer.step()
                optimizer.zero_grad()
        """,
    ),
    (
        "zeroed-while-accumulating",
        loop(f"{STEP}\nif i % 4 == 0:\n    loss = model(y).sum()\n    loss.backward()"),
    ),
    (
        "zeroed-while-accumulating",
        "import torch\nfor i, x in enumerate(loader):\n    opt_g.zero_grad()\n    if i % 5 == 0:\n"
        "        g(x).backward()\n        opt_g.step()",
    ),
    (
        "metric-to-step-scheduler",
        epochs(
            "lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 9)", "    scheduler.step(epoch)"
        ),
    ),
    (
        "graph-kept",
        "import torch\ndef step(x):\n    loss = model(x)\n    loss.backward()\n"
        "    return loss.item()\nfor x in loader:\n    total += step(x)",
    ),
    (
        "best-state-not-copied",
        loop(
            f"{STEP}\nif hasattr(model, 'x'):\n    inner = model.x\nelse:\n    inner = model",
            "f(inner)",
        ),
    ),
    ("best-state-not-copied", loop(STEP, "for e in range(2):\n    if good:\n        last = model")),
    (
        "functional-dropout",
        module(
            "self.p = 0.1",
            "p = self.p if self.training else 0.0\n"
            "x = F.scaled_dot_product_attention(x, x, x, dropout_p=p)",
        ),
    ),
    ("scheduler-never-steps", epochs("lr_scheduler.StepLR(optimizer, 3)", "    scheduler.step()")),
    ("scheduler-never-steps", epochs("lr_scheduler.StepLR(optimizer, 3)", "    update(scheduler)")),
    (
        "schedule-in-wrong-unit",
        epochs("lr_scheduler.CosineAnnealingLR(optimizer, epochs)", "    scheduler.step()"),
    ),
    (
        "schedule-in-wrong-unit",
        epochs(
            "lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(loader))",
            "        scheduler.step()",
        ),
    ),
    (
        "schedule-in-wrong-unit",
        epochs(
            "lr_scheduler.OneCycleLR(optimizer, 0.1, epochs=epochs, steps_per_epoch=len(loader))",
            "        scheduler.step()",
        ),
    ),
    (
        "schedule-in-wrong-unit",
        EPOCHS.replace("range(epochs)", "range(100)").format(
            "lr_scheduler.CosineAnnealingLR(optimizer, 100)", "        scheduler.step()"
        ),
    ),
    (
        "schedule-in-wrong-unit",
        EPOCHS.replace("in loader", "in [whole]").format(
            "lr_scheduler.CosineAnnealingLR(optimizer, epochs)", "        scheduler.step()"
        ),
    ),
    (
        "schedule-in-wrong-unit",
        epochs(
            "lr_scheduler.CosineAnnealingLR(optimizer, T_max=len(loader))",
            "        scheduler.step()",
        ),
    ),
    *(
        (slug, epochs(made, steps))
        for slug in ("plateau-without-metric", "metric-to-step-scheduler")
        for made, steps in (
            (BY_TEST, STEP_BY_TEST),
            (EITHER, STEP_BY_TEST),
            ("lr_scheduler.StepLR(optimizer, 3)", SECOND_PHASE),
        )
    ),
    *(
        ("optimizer-made-each-step", TASKS.format(again))
        for again in ("model.load_state_dict(initial)", "reset(model)", "model.apply(init)")
    ),
    ("hidden-not-detached", CARRIED.format("h = h.detach()", "Cell()")),
    *(
        ("best-state-not-copied", loop(STEP, f"for e in range(2):\n{indented(kept, 4)}\n{USED}"))
        for kept in (
            BEST.format("state = {k: v.clone() for k, v in state.items()}"),
            BEST.format("for k in state: state[k] = state[k].clone()"),
        )
    ),
    (
        "plateau-without-metric",
        epochs("lr_scheduler.ReduceLROnPlateau(optimizer)", "    scheduler.step(loss)"),
    ),
    (
        "softmax-before-cross-entropy",
        loop(f"loss = F.cross_entropy(model(x), y.softmax(-1))\n{STEP}"),
    ),
    (
        "softmax-before-cross-entropy",
        loop(f"p = model(x).softmax(-1)\nloss = F.nll_loss(p.log(), y)\n{STEP}"),
    ),
    ("bce-on-logits", loop(f"loss = F.binary_cross_entropy(model(x).sigmoid(), y)\n{STEP}")),
    ("bce-on-logits", loop(f"loss = F.binary_cross_entropy(other(x), y)\n{STEP}")),
    ("nll-on-logits", loop(f"loss = F.nll_loss(F.log_softmax(model(x), -1), y)\n{STEP}")),
    ("kl-div-input", loop(f"loss = F.kl_div(F.log_softmax(model(x), -1), y.softmax(-1))\n{STEP}")),
    ("loss-of-decision", loop(f"right = F.mse_loss(model(x).argmax(1), y)\n{STEP}")),
    ("loss-arguments-swapped", loop(f"loss = F.mse_loss(y, model(x))\n{STEP}")),
    ("loss-arguments-swapped", loop(f"loss = F.cross_entropy(model(x), y)\n{STEP}")),
    ("loss-rebuilt", loop(f"z = torch.tensor(1.0, requires_grad=True)\nloss = model(z)\n{STEP}")),
    ("loss-rebuilt", loop(f"{REBUILT}\nkept = z.grad")),
    *(
        ("loss-rebuilt", loop(REBUILT.replace("F.mse_loss(z, y)", f"{other}"), f"{after}"))
        for other, after in (
            ("F.mse_loss(z, model(x))", ""),
            ("arc_face_loss(z, y)", ""),
            ("F.mse_loss(z, y)", "free = [z]\nopt = torch.optim.Adam(free)"),
        )
    ),
    (
        "loss-rebuilt",
        loop(
            REBUILT.replace("loss =", "other = torch.optim.SGD([z])\nloss =").replace(
                "(z,", "(z.view(2),"
            )
        ),
    ),
    (
        "forward-without-grad",
        loop(f"with torch.no_grad():\n    z = teacher(x)\nloss = F.mse_loss(model(x), z)\n{STEP}"),
    ),
    (
        "forward-without-grad",
        loop(
            "with torch.no_grad():\n    z = teacher(x)\nout = model(x)\n"
            f"loss = F.mse_loss(z, out)\n{STEP}"
        ),
    ),
    (
        "hidden-not-detached",
        "import torch\nhidden = start()\nfor x in loader:\n    hidden = repackage_hidden(hidden)\n"
        "    out, hidden = model(x, hidden)\n    out.backward()",
    ),
    (
        "hidden-not-detached",
        "import torch\nfor x in loader:\n    hidden = start()\n    for t in x:\n"
        "        out, hidden = model(t, hidden)\n    out.backward()",
    ),
    (
        "best-state-not-copied",
        loop(STEP, "if good:\n    state = model.state_dict()\n    torch.save(state, 'x')"),
    ),
    ("labels-shifted-twice", "loss = model(input_ids=x, labels=x).loss\nloss.backward()"),
    (
        "labels-shifted-twice",
        "class Own:\n    pass\nmodel = T5ForConditionalGeneration.from_pretrained('x')\n"
        "model(input_ids=x[:, :-1], labels=x[:, 1:]).loss.backward()",
    ),
    (
        "padding-in-labels",
        "def f(e):\n    b = tokenizer(e, padding=True)\n    b['labels'] = b['input_ids'].copy()\n"
        "    b['labels'][b['input_ids'] == tokenizer.pad_token_id] = -100\nt = Trainer(model=m)",
    ),
    ("optimizer-before-parameters", loop(STEP, "model.fc = nn.Linear(2, 3)")),
    (
        "optimizer-before-parameters",
        "import torch\nmodel = Net()\noptimizer = torch.optim.Adam(model.parameters())\n"
        "model = model.to('cuda')\nfor x in loader:\n    model(x).backward()",
    ),
    (
        "optimizer-before-parameters",
        "import torch\nmodel = Net()\noptimizer = torch.optim.Adam(model.parameters())\n"
        "model.fc = torch.nn.Linear(2, 2)\noptimizer = torch.optim.Adam(model.parameters())\n"
        "for x in loader:\n    model(x).backward()",
    ),
    ("requires-grad-typo", loop(f"self.require_grad = False\n{STEP}")),
    ("requires-grad-on-module", loop(f"model.weight.requires_grad = False\n{STEP}")),
    ("requires-grad-on-module", loop(f"x.requires_grad = True\n{STEP}")),
    (
        "modules-in-plain-list",
        module("self.layers = [nn.ReLU()]", "for f in self.layers: x = f(x)"),
    ),
    (
        "modules-in-plain-list",
        module(
            "self.a = [nn.Linear(2, 2)]\nself.b = nn.ModuleList(self.a)",
            "for f in self.a: x = f(x)",
        ),
    ),
    (
        "modules-in-plain-list",
        module("self.hidden = [teacher]", "x = self.hidden[0](x)"),
    ),
    (
        "modules-in-plain-list",
        module("self.a = [nn.Linear(2, 2)]\nself.a[0].requires_grad_(False)", "x = self.a[0](x)"),
    ),
    ("parameter-not-registered", module("self.w = nn.Parameter(torch.ones(2).cuda())")),
    ("parameter-not-registered", module("self.w = nn.Parameter(torch.ones(2)).to(torch.float32)")),
    ("layer-made-in-forward", module("self.a = nn.Linear(2, 2)", "x = self.a(x)")),
    ("layer-made-in-forward", module("self.a = None", "self.a = nn.Linear(2, 2)")),
    ("functional-dropout", module("pass", "x = F.dropout(x, 0.1, self.training)")),
    ("functional-dropout", module("pass", "if self.training:\n    x = F.dropout(x, 0.1)")),
    ("eval-never-called", loop(STEP, "with torch.no_grad():\n    for x in val:\n        model(x)")),
    (
        "evaluation-keeps-graphs",
        loop(STEP, "model.eval()\nfor x in val:\n    total += model(x).sum().item()"),
    ),
    (
        "evaluation-keeps-graphs",
        loop(
            STEP,
            "model.eval()\nwith torch.no_grad():\n    for x in v:\n        total += model(x)",
        ),
    ),
    ("cache-emptied-each-step", loop(f"{STEP}\nif i % 100 == 0:\n    torch.cuda.empty_cache()")),
    (
        "set-epoch-missing",
        ddp("loader = DataLoader(d, sampler=DistributedSampler(d, shuffle=False))"),
    ),
    ("ddp-without-sampler", ddp("loader = DataLoader(data[rank::4], shuffle=True)")),
    ("ddp-bypassed", ddp("", "model.module(x)")),
    ("collective-on-one-rank", ddp("if rank == 0:\n    print()\ndist.barrier()")),
    (
        "collective-on-one-rank",
        ddp("if rank != 0:\n    dist.barrier()\nload()\nif rank == 0:\n    dist.barrier()"),
    ),
    ("save-on-all-ranks", ddp("", "if rank == 0:\n    torch.save(model, 'x')")),
    ("save-on-all-ranks", ddp("", "torch.save(model, f'x{rank}')")),
    ("save-on-all-ranks", ddp("import deepspeed", "torch.save(model, 'x')")),
    ("save-on-all-ranks", ddp("from accelerate import Accelerator", "torch.save(model, 'x')")),
    ("load-without-map-location", ddp("data = torch.load('data.pt')")),
    ("sampler-with-shuffle", "loader = DataLoader(d, sampler=s, shuffle=s is None)"),
    ("sampler-with-shuffle", "s = None\nloader = DataLoader(d, sampler=s, shuffle=True)"),
    (
        "accelerate-plain-backward",
        "from accelerate import Accelerator\na = Accelerator()\nmodel = a.prepare(model)\n"
        "for x in loader:\n    loss = other(x)\n    loss.backward()",
    ),
    ("removed-function", "import torch\ntry:\n    torch.symeig(x)\nexcept RuntimeError:\n    pass"),
    ("removed-function", "import torch.fft\ny = torch.fft.rfft(x)"),
    (
        "compute-loss-signature",
        "class T(Trainer):\n    def compute_loss(self, m, i, **more):\n        pass",
    ),
    ("trainer-argument-removed", "args = TrainingArguments('x', eval_strategy='epoch')"),
]

FIRES = [
    ("loss-rebuilt", loop(REBUILT)),
    ("zeroed-before-step", loop(f"{STEP}\noptimizer.zero_grad()\nmodel(y).sum().backward()")),
    (
        "schedule-in-wrong-unit",
        epochs(
            "lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=len(loader))",
            "        scheduler.step()",
        ),
    ),
    (
        "metric-to-step-scheduler",
        epochs(
            "None\nif plan:\n    scheduler = lr_scheduler.StepLR(optimizer, 3)",
            "    scheduler.step(loss)",
        ),
    ),
    (
        "metric-to-step-scheduler",
        epochs("lr_scheduler.StepLR(optimizer, 3)", SECOND_PHASE.replace("step()", "step(loss)")),
    ),
    (
        "plateau-without-metric",
        epochs(
            "lr_scheduler.StepLR(optimizer, 3)", SECOND_PHASE.replace("step(val_loss)", "step()")
        ),
    ),
    ("zero-grad-missing", TWO.format(*OWN, "g")),
    ("zero-grad-missing", EPOCH.format(ADAM, "train(model, optimizer)")),
    ("zero-grad-missing", EPOCH.format(ADAM, "self.runner.train(model, opt=optimizer)")),
    ("ddp-bypassed", THROUGH.format("loss = model.module.compute(x)")),
    ("schedule-in-wrong-unit", epochs(PARTS.format("epochs // 3"), "        scheduler.step()")),
    (
        "schedule-in-wrong-unit",
        epochs(
            "lr_scheduler.CosineAnnealingLR(optimizer, epochs)", "        scheduler.step()"
        ).replace("range(epochs)", "range(1, epochs + 1)"),
    ),
    ("hidden-not-detached", CARRIED.format("h = h.float()", "Cell()")),
    ("optimizer-made-each-step", TASKS.format("model.train()")),
    (
        "best-state-not-copied",
        loop(STEP, f"for e in range(2):\n{indented(BEST.format('best = e'), 4)}\n{USED}"),
    ),
]

WARNS = [
    ("clipped-while-accumulating", MICRO.format(CLIP, "pass")),
    ("clipped-while-accumulating", MICRO.format(f"if args.clip > 0: {CLIP}", "pass")),
    ("clipped-while-accumulating", GATHER.format(4, OF_ACCELERATE)),
    ("loss-detached", SUM.format("b.mean().item()", "part")),
    ("loss-detached", SUM.format("b.mean().item()", "0.1 * part - b.var()")),
    ("set-epoch-missing", SAMPLER.format("0")),
]

UNDECIDED = [
    ("clipped-while-accumulating", GATHER.format("args.steps", OF_ACCELERATE)),
    ("hidden-not-detached", CARRIED.format("pass", "build(Cell)")),
    (
        "softmax-before-cross-entropy",
        """
        import torch
        from torch import nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(2, 2)
            def forward(self, x, raw=False):
                x = self.fc(x)
                if raw:
                    return x
                return torch.softmax(x, -1)
        model = Net()
        criterion = nn.CrossEntropyLoss()
        for x, y in loader:
            criterion(model(x), y).backward()
        """,
    ),
    (
        "labels-shifted-twice",
        "def step(model, x):\n    loss = model(input_ids=x[:, :-1], labels=x[:, 1:]).loss\n"
        "    loss.backward()",
    ),
    (
        "save-on-all-ranks",
        ddp("def save(model):\n    torch.save(model.state_dict(), 'x')"),
    ),
]


@pytest.mark.parametrize(("slug", "code"), SILENT)
def test_a_trap_is_silent(slug: str, code: str) -> None:
    assert slug not in codes(code)


@pytest.mark.parametrize(("slug", "code"), FIRES)
def test_beside_a_trap_the_mistake_is_reported(slug: str, code: str) -> None:
    assert codes(code).get(slug) == "fail"


@pytest.mark.parametrize(("slug", "code"), WARNS)
def test_beside_a_trap_there_is_a_warning(slug: str, code: str) -> None:
    assert codes(code).get(slug) == "warn"


@pytest.mark.parametrize(("slug", "code"), UNDECIDED)
def test_what_the_file_does_not_decide_is_unknown(slug: str, code: str) -> None:
    assert codes(code).get(slug) == "unknown"


def test_a_rule_that_follows_too_much_says_so() -> None:
    def endless(reading: Training) -> Iterator[Match]:
        while True:
            reading.step()
            yield from ()

    rule = replace(BY_CODE["SCR162"], find=endless)
    hits = lint(read_python("x.py", b"a = 1"), ScriptMachine(), [rule])
    assert [hit.code for hit in hits if "stops after" in hit.undecided] == ["SCR162"]


TOKENIZER = """
from transformers import AutoTokenizer, LlamaTokenizer, Trainer
def load(name):
    if "llama" in name:
        tokenizer = LlamaTokenizer.from_pretrained(name)
    else:
        tokenizer = {}
    tokenizer.pad_token_id = 0
    return Trainer(model=model, processing_class=tokenizer)
"""


@pytest.mark.parametrize(
    ("made", "severity"),
    [
        ("AutoTokenizer.from_pretrained(name)", "warn"),
        ('AutoTokenizer.from_pretrained("gpt2")', "warn"),
        ('AutoTokenizer.from_pretrained("meta-llama/Llama-3.1-8B")', "fail"),
        ('AutoTokenizer.from_pretrained("t5-small")', None),
        ("own_tokenizer(name)", "unknown"),
    ],
)
def test_each_tokenizer_that_reaches_the_padding_decides(made: str, severity: str | None) -> None:
    assert codes(TOKENIZER.format(made)).get("pad-token-zero") == severity


@pytest.mark.parametrize(
    "cast",
    ["model.to(device).to(torch.bfloat16)", "model.cuda().half()", "model = model.cuda().half()"],
)
def test_a_cast_in_a_chain_is_seen(cast: str) -> None:
    assert "trainable-low-precision-cast" in codes(loop(f"{cast}\n{STEP}"))


def test_a_scaler_that_never_scales_does_not_count() -> None:
    code = (
        "import torch\nscaler = torch.amp.GradScaler('cuda')\nfor x in loader:\n"
        "    with torch.autocast('cuda', dtype=torch.float16):\n        loss = model(x)\n"
        "    loss.backward()\n    optimizer.step()\n    optimizer.zero_grad()\n"
    )
    assert codes(code).get("fp16-autocast-no-scaler") == "fail"


def test_gradients_that_are_zeroed_outside_of_the_loop() -> None:
    code = (
        "import torch\noptimizer = torch.optim.SGD(model.parameters())\noptimizer.zero_grad()\n"
        "for x in loader:\n    model(x).backward()\n    optimizer.step()\n"
    )
    assert codes(code).get("zero-grad-missing") == "fail"

"""Training scripts that tests complete, and the rules that fire on them."""

from __future__ import annotations

import textwrap

from doctor.checks.script.lint import lint
from doctor.checks.script.table import BY_CODE, RELEVANT
from doctor.facts.script_machine import ScriptMachine
from doctor.script.python import read_python

NO_MACHINE = ScriptMachine()
LEFT_OUT = {"SCR438", "SCR440"}
"""The snippets leave out names and attributes that whole files would bind."""


def codes(
    code: str, machine: ScriptMachine = NO_MACHINE, *, path: str = "train.py"
) -> dict[str, str]:
    """slug -> severity of what fires, "unknown" for what is undecided; absences are left out."""
    script = read_python(path, textwrap.dedent(code).encode(), relevant=RELEVANT)
    assert not script.unreadable, script.unreadable
    return {
        BY_CODE[hit.code].slug: "unknown" if hit.undecided else hit.severity
        for hit in lint(script, machine)
        if not BY_CODE[hit.code].once and hit.code not in LEFT_OUT
    }


SCALED = """
    import torch
    def train(model, loader, optimizer, scaler, args):
        for x in loader:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = model(x)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            {}
            scaler.step(optimizer)
            scaler.update()
"""

CLIP = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"

PLAIN = """
    import torch
    from torch import nn
    import torch.nn.functional as F
    model = nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    for x in loader:
        {}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""

HF = """
    import torch
    from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
    from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training, PeftModel
    {}
    trainer = Trainer(model=model, args=args)
    trainer.train()
"""

ARGS = 'args = TrainingArguments("out", logging_nan_inf_filter=False{})'

LOAD = 'model = AutoModelForCausalLM.from_pretrained("x"{})'


def hf(*lines: str) -> str:
    return HF.format("\n    ".join(lines))


def scaled(*lines: str) -> str:
    return SCALED.format("\n            ".join(lines))


def plain(*lines: str) -> str:
    return PLAIN.format("\n        ".join(lines))

"""A fixed script really runs where the original failed: torch on the CPU."""

from __future__ import annotations

import subprocess
from pathlib import Path

import preloaded
import pytest
from command import doctor

pytestmark = pytest.mark.slow

SCRIPT = """
import torch
import torch.nn.functional as F

model = torch.nn.Linear(4, 1, bias=False)
torch.nn.init.ones_(model.weight)
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
scaler = torch.amp.GradScaler("cpu", init_scale=65536.0)
for x in [torch.ones(1, 4) * 3]:
    optimizer.zero_grad()
    loss = model(x).sum()
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
moved = (1 - model.weight).norm().item()
logits = torch.tensor([[200.0, 0.0]], requires_grad=True)
loss = -torch.log(F.softmax(logits, dim=-1))[0, 1]
loss.backward()
print("moved" if moved > 0.5 else "stood still")
print("finite" if torch.isfinite(logits.grad).all() else "NaN")
"""


def test_a_fixed_script_trains(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    assert run(path) == ["stood still", "NaN"]
    doctor("lint", path, "--fix", cwd=tmp_path)
    assert run(path) == ["moved", "finite"]


def run(path: Path) -> list[str]:
    """What the script prints."""
    command = [preloaded.python(), str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")[
        :2
    ]


PEFT = """
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

sizes = dict(hidden_size=16, intermediate_size=32, num_hidden_layers=1, vocab_size=32)
config = LlamaConfig(num_attention_heads=2, num_key_value_heads=2, **sizes)
model = get_peft_model(LlamaForCausalLM(config), LoraConfig(target_modules=["q_proj"], r=2))
model.gradient_checkpointing_enable()
model.train()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
tokens = torch.randint(0, 32, (1, 8))
model(input_ids=tokens, labels=tokens).loss.backward()
optimizer.step()
print("trained")
"""


def test_lora_with_checkpointing_trains_in_transformers_4_and_5(
    tmp_path: Path, transformers_4: str
) -> None:
    original, path = tmp_path / "original.py", tmp_path / "train.py"
    original.write_text(PEFT)
    path.write_text(PEFT)
    doctor("lint", path, "--fix", cwd=tmp_path)
    assert 'gradient_checkpointing_kwargs={"use_reentrant": False}' in path.read_text()
    failed, *trained = ended(transformers_4, original, path)
    assert "element 0 of tensors does not require grad" in failed
    assert trained == ["trained"]
    assert ended(preloaded.python(preloaded.TRAINER), path) == ["trained"]


ONE_AFTER_THE_OTHER = """
import runpy, sys
for path in sys.argv[1:]:
    try:
        runpy.run_path(path, run_name="__main__")
    except Exception as error:
        print(error)
"""


def ended(python: str, *paths: Path) -> list[str]:
    """The line that each script writes, or its error, in one process."""
    command = [python, "-c", ONE_AFTER_THE_OTHER, *map(str, paths)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()

"""Fixed scripts really run where the originals failed: torch, transformers and peft on the CPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from command import doctor

pytestmark = pytest.mark.slow

CLIP = """
import torch

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
assert moved > 0.5, f"the step was {moved:g} instead of 1"
"""
LOG = """
import torch
import torch.nn.functional as F

logits = torch.tensor([[200.0, 0.0]], requires_grad=True)
loss = -torch.log(F.softmax(logits, dim=-1))[0, 1]
loss.backward()
assert torch.isfinite(logits.grad).all(), logits.grad
"""


@pytest.mark.parametrize("script", [CLIP, LOG], ids=["clip", "log"])
def test_a_fixed_script_runs(tmp_path: Path, script: str) -> None:
    path = tmp_path / "train.py"
    path.write_text(script)
    command = [sys.executable, str(path)]
    before = subprocess.run(command, capture_output=True, text=True, check=False)
    assert before.returncode == 1
    assert "AssertionError" in before.stderr
    assert doctor("lint", path, "--only", "SCR101,SCR141", cwd=tmp_path).returncode in (0, 1)
    doctor("lint", path, "--fix", cwd=tmp_path)
    after = subprocess.run(command, capture_output=True, text=True, check=False)
    assert after.returncode == 0, after.stderr

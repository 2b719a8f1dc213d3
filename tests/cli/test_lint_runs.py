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

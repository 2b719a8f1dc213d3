"""A prepared scheduler beside the processes that the launch starts."""

from __future__ import annotations

import pytest

from doctor.checks.script.lint import lint
from doctor.checks.script.table import RELEVANT
from doctor.facts.script_machine import ScriptMachine
from doctor.script.launch import read_launches
from doctor.script.read import read_script

SCRIPT = """
import torch
from accelerate import Accelerator
from transformers import get_linear_schedule_with_warmup
STEPS = 4000
accelerator = Accelerator()
opt = torch.optim.AdamW(model.parameters(), lr=1e-5)
sched = get_linear_schedule_with_warmup(opt, 100, {length})
model, opt, loader{prepared} = accelerator.prepare(model, opt, loader{prepared})
done = 0
while done < STEPS:
    for x in loader:
        accelerator.backward(model(x).loss)
        opt.step()
        sched.step()
        opt.zero_grad()
        done += 1
"""


def found(line: str, length: str = "STEPS", prepared: str = ", sched") -> bool:
    launches = [each for _, each in read_launches("go.sh", line.encode())]
    code = SCRIPT.format(length=length, prepared=prepared).encode()
    script = read_script("train.py", code, launches=tuple(launches), relevant=RELEVANT)
    assert script is not None
    return "SCR325" in {hit.code for hit in lint(script, ScriptMachine())}


@pytest.mark.parametrize(
    "line",
    [
        "accelerate launch --multi_gpu --num_processes 8 train.py",
        "torchrun --nproc_per_node=4 train.py",
    ],
)
def test_a_schedule_in_updates_is_used_up_by_several_processes(line: str) -> None:
    assert found(line)


def test_one_process_a_product_and_a_scheduler_of_its_own_are_right() -> None:
    several = "accelerate launch --num_processes 8 train.py"
    assert not found("accelerate launch --num_processes 1 train.py")
    assert not found(several, length="STEPS * accelerator.num_processes")
    assert not found(several, prepared="")

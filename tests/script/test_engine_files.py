"""The batch of a DeepSpeed file beside the GPUs of the launch that names it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from doctor.checks.script.lint import lint
from doctor.checks.script.table import RELEVANT
from doctor.facts.script_machine import ScriptMachine
from doctor.script.engine_files import batches_of_engines
from doctor.script.launch import read_launches
from doctor.script.read import read_script

SCRIPT = b"""
import deepspeed
engine, opt, _, _ = deepspeed.initialize(args=args, model=net, model_parameters=net.parameters())
for x, y in loader:
    engine.backward(loss_of(engine(x), y))
    engine.step()
"""
BATCH = {
    "train_batch_size": 96,
    "train_micro_batch_size_per_gpu": 3,
    "gradient_accumulation_steps": 4,
}


def severity(here: Path, line: str, file: object) -> str | None:
    here.joinpath("engine.json").write_text(file if isinstance(file, str) else json.dumps(file))
    launches = [each for _, each in read_launches(str(here / "go.sh"), line.encode())]
    path = str(here / "train.py")
    settings = batches_of_engines(path, launches, SCRIPT)
    script = read_script(
        path, SCRIPT, launches=tuple(launches), settings=settings, relevant=RELEVANT
    )
    assert script is not None
    hits = [hit for hit in lint(script, ScriptMachine()) if hit.code == "SCR393"]
    return hits[0].severity if hits else None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("deepspeed --num_gpus 8 train.py --deepspeed_config engine.json", None),
        ("deepspeed --num_gpus 4 train.py --deepspeed_config engine.json", "warn"),
        ("torchrun --nproc_per_node 4 train.py --deepspeed_config=engine.json", "fail"),
        ("deepspeed --num_gpus 6 train.py --deepspeed engine.json", "fail"),
        ("deepspeed --num_gpus 4 --num_nodes 2 train.py --deepspeed_config engine.json", None),
        ("deepspeed --hostfile hosts --num_gpus 6 train.py --deepspeed engine.json", None),
        ("deepspeed --num_gpus $GPUS train.py --deepspeed_config engine.json", None),
        ("deepspeed --num_gpus 6 train.py --deepspeed_config $CONFIG.json", None),
    ],
)
def test_the_batch_is_compared_with_the_launch(
    tmp_path: Path, line: str, expected: str | None
) -> None:
    assert severity(tmp_path, line, BATCH) == expected


@pytest.mark.parametrize(
    "file", [{**BATCH, "gradient_accumulation_steps": "auto"}, {"bf16": {}}, [1], "{", "[" * 9000]
)
def test_what_the_file_does_not_say_is_no_mistake(tmp_path: Path, file: object) -> None:
    line = "deepspeed --num_gpus 6 train.py --deepspeed_config engine.json"
    assert severity(tmp_path, line, file) is None


NAMED = """
import json
import deepspeed
with open("engine.json") as file:
    settings = json.load(file)
steps = settings["gradient_accumulation_steps"]
engine, *_ = deepspeed.initialize(model=net, config=settings)
for i, x in enumerate(loader):
    loss = engine(x)
    engine.backward(loss)
    if (i + 1) % steps == 0:
        engine.step()
"""


@pytest.mark.parametrize(("steps", "found"), [(4, True), (1, False)])
def test_the_file_that_a_script_names_says_whether_its_engine_accumulates(
    tmp_path: Path, steps: int, found: bool
) -> None:
    (tmp_path / "engine.json").write_text(json.dumps({"gradient_accumulation_steps": steps}))
    path = str(tmp_path / "train.py")
    settings = batches_of_engines(path, (), NAMED.encode())
    script = read_script(path, NAMED.encode(), settings=settings, relevant=RELEVANT)
    assert script is not None
    codes = {hit.code for hit in lint(script, ScriptMachine())}
    assert ("SCR393" in codes) is found

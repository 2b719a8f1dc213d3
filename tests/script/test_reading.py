"""Files to scripts: positions, encodings, notebooks, configurations, launches, bad input."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.checks.script.lint import lint
from doctor.cli.lint.linter import Linter
from doctor.cli.lint.run import LintOptions, run_lint
from doctor.facts.script import Launch, Script, Span
from doctor.facts.script_machine import ScriptMachine
from doctor.script.discover import discover
from doctor.script.launch import bind, read_launches
from doctor.script.python import read_notebook, read_python
from doctor.script.read import read_script

NOBODY = ScriptMachine()
TRAINS = b"""import torch
from torch.cuda.amp import autocast
optimizer = torch.optim.SGD(model.parameters())
for x in loader:
    model(x).backward()
    optimizer.step()
"""


def codes(script: Script | None) -> set[str]:
    assert script is not None
    return {
        hit.code for hit in lint(script, NOBODY) if not hit.code.startswith(("SCR17", "SCR438"))
    }


def test_columns_count_characters_and_end_behind_the_last_one() -> None:
    script = read_python("a.py", "import torch.cuda.amp\né = torch.cuda.amp.autocast()\n".encode())
    (call,) = script.calls
    assert call.span == Span(2, 5, 2, 30)
    assert call.name == "torch.cuda.amp.autocast"


def test_aliases_are_resolved_also_those_below_and_in_functions() -> None:
    text = b"def f():\n    F.softmax(x)\nimport torch.nn.functional as F\noptim.Adam\n"
    assert read_python("a.py", text + b"backward_backward(").unreadable
    (call,) = read_python("a.py", text).calls
    assert call.name == "torch.nn.functional.softmax"


def test_equal_conditions_are_one_branch_and_early_exits_its_other_arm() -> None:
    text = b"""
def f(amp):
    if amp:
        optim.one()
    if not amp:
        two()
        return
    three()
"""
    one, two, three = read_python("a.py", text).calls
    ((branch, arm),) = one.arms
    assert two.arms == ((branch, 1 - arm),)
    assert three.arms == ((branch, arm),)


def test_the_parts_of_a_condition_are_branches_too() -> None:
    text = b"""
if a and not (b or c):
    optim.one()
if b:
    two()
"""
    one, two = read_python("a.py", text).calls
    ((branch, arm),) = two.arms
    assert (branch, 1 - arm) in one.arms


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + TRAINS,
        TRAINS.replace(b"\n", b"\r\n"),
        TRAINS.replace(b"\n", b"\r"),
        b"# -*- coding: latin-1 -*-\nname = '\xe9'\n" + TRAINS,
        b"#!/usr/bin/env python\n\x0c\n" + TRAINS,
    ],
    ids=["BOM", "CRLF", "CR", "latin-1", "form feed"],
)
def test_encodings_and_line_ends_change_nothing(data: bytes) -> None:
    assert codes(read_script("a.py", data)) == {"SCR161", "SCR152"}


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"print 'Python 2'\n", "syntax error"),
        (b"def f(:\n", "syntax error"),
        (b"x = 1\0\n", "NUL"),
        (b"\xff\xfe\x00", "NUL"),
        (b"name = '\xe9'\n", "decoded"),
        (b"# coding: no-such-encoding\n", "decoded"),
        (b"(" * 10_000, "syntax error"),
        (b"x = 1\n" * 2_000_000, "exceeds"),
        (b"if x:\n\ty\n        z\n", "syntax error"),
    ],
    ids=["Python 2", "syntax", "NUL", "UTF-16", "bytes", "coding", "brackets", "10 MB", "tabs"],
)
def test_what_cannot_be_parsed_is_one_finding(data: bytes, word: str) -> None:
    script = read_script("a.py", data)
    assert script is not None
    (unreadable,) = script.unreadable
    assert word in unreadable.reason
    assert unreadable.span.line >= 1
    assert codes(script) == {"SCR001"}


@pytest.mark.parametrize(
    "expression",
    ["+".join(["x"] * 50_000), "x" + ".y" * 3_000, "f(" * 150 + ")" * 150, "not " * 150 + "x"],
)
def test_deep_expressions_end_without_a_traceback(expression: str) -> None:
    data = TRAINS + f"value = {expression}\n".encode()
    assert codes(read_script("a.py", data)) <= {"SCR161", "SCR152", "SCR001"}


def test_a_thousand_elifs_are_no_recursion() -> None:
    branches = "".join(f"elif x == {number}:\n    y = {number}\n" for number in range(1000))
    data = TRAINS + f"if x:\n    y = 0\n{branches}".encode()
    assert codes(read_script("a.py", data)) in ({"SCR161", "SCR152"}, {"SCR001"})


def notebook(*cells: str, **more: object) -> bytes:
    listed = [{"cell_type": "code", "source": cell.splitlines(True)} for cell in cells]
    return json.dumps({"cells": listed, "nbformat": 4, **more}).encode()


def test_a_wide_text_of_two_options_each_is_not_written_out() -> None:
    parts = "".join(f"{{p{n}}}_" for n in range(60))
    choices = "".join(f'p{n} = "a" if x else "b"\n' for n in range(60))
    monitored = f"""
import lightning as L
from lightning.pytorch.callbacks import ModelCheckpoint
x = input()
{choices}
class Lit(L.LightningModule):
    def training_step(self, batch, i):
        self.log(f"{parts}", 1.0)
        return self(batch)
L.Trainer(callbacks=[ModelCheckpoint(monitor="loss")]).fit(Lit(), data)
"""
    assert "SCR280" not in codes(read_script("a.py", TRAINS + monitored.encode()))


def test_a_notebook_has_cells_and_lines() -> None:
    data = notebook(
        "!pip install torch \\\n  peft\n%matplotlib inline\nimport torch",
        "%%bash\nnot python (",
        "    # indented\n    from torch.cuda.amp import autocast",
        "await something()",
    )
    script = read_notebook("n.ipynb", data)
    assert not script.unreadable
    hits = [hit for hit in lint(script, NOBODY) if hit.code == "SCR161"]
    assert [(hit.span.cell, hit.span.line) for hit in hits] == [(3, 2)]


@pytest.mark.parametrize("magic", ["%time ", "%timeit -n 1 -r 3 ", "%prun -q "])
def test_what_a_magic_runs_is_read_where_it_stands(magic: str) -> None:
    script = read_notebook("n.ipynb", notebook(f"x = 1\n{magic}main(x)", "%time", "%timeit?"))
    assert [(call.name, call.span.line, call.span.column) for call in script.calls] == [
        ("main", 2, len(magic) + 1)
    ]


def test_a_cell_that_does_not_parse_leaves_the_others() -> None:
    script = read_notebook("n.ipynb", notebook("def (", TRAINS.decode()))
    ((cell, line),) = [(each.span.cell, each.span.line) for each in script.unreadable]
    assert (cell, line) == (1, 1)
    assert codes(script) == {"SCR001", "SCR161", "SCR152"}


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"cells": 3}', b"\xff", b"[" * 100_000])
def test_a_notebook_that_is_none_is_one_finding(data: bytes) -> None:
    assert codes(read_notebook("n.ipynb", data)) == {"SCR001"}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "ds.json",
            '{"zero_optimization": {"stage": 2}, "train_batch_size": 8,\n'
            ' "fp16": {"enabled": true, "loss_scale": 128}, "bf16": {"enabled": true}}',
            {"SCR181", "SCR182"},
        ),
        (
            "ds.json",
            '{"zero_optimization": {"stage": 2}, "train_batch_size": "auto",\n'
            ' "fp16": {"enabled": "auto", "loss_scale": 0}}',
            set(),
        ),
        (
            "llama.yaml",
            "base_model: x\nmicro_batch_size: 2\nbf16: true\nfp16: true # both\n",
            {"SCR181"},
        ),
        (
            "sft.yaml",
            "stage: sft\nfinetuning_type: full\ntorch_dtype: bfloat16\nfp16: true\n",
            {"SCR185"},
        ),
        (
            "sft.yaml",
            "stage: sft\nfinetuning_type: lora\ndeepspeed: ds_z3.json\ndevice_map: auto\n",
            {"SCR183"},
        ),
        (
            "args.yaml",
            "output_dir: o\nper_device_train_batch_size: 1\nfinetuning_type: lora\n"
            "gradient_checkpointing: true\n"
            "gradient_checkpointing_kwargs:\n  use_reentrant: true\n",
            {"SCR184"},
        ),
    ],
)
def test_configurations_are_recognized_by_their_keys(
    name: str, text: str, expected: set[str]
) -> None:
    assert codes(read_script(name, text.encode())) == expected


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("compose.yml", "services:\n  web:\n    image: x\n"),
        ("package.json", '{"name": "train", "fp16": true}'),
        ("broken.json", '{"zero_optimization": '),
        ("empty.yaml", ""),
    ],
)
def test_other_data_files_are_left_alone(name: str, text: str) -> None:
    assert read_script(name, text.encode()) is None


def test_a_setting_knows_its_place() -> None:
    script = read_script("a.yaml", b"base_model: x\nmicro_batch_size: 1\nfp16:   true  # yes\n")
    assert script is not None
    assert script.settings[-1].span == Span(3, 9, 3, 13)


@pytest.mark.parametrize(
    ("name", "text", "program", "arguments"),
    [
        (
            "run.sh",
            "CUDA_VISIBLE_DEVICES=0 python train.py --fp16 True \\\n  --lr=1e-4 --tf32 && echo",
            "python",
            {"fp16": "True", "lr": "1e-4", "tf32": ""},
        ),
        (
            "job.sbatch",
            "srun torchrun --nproc_per_node 8 train.py --bf16",
            "torchrun",
            {"bf16": ""},
        ),
        (
            "Makefile",
            "all:\n\t@accelerate launch train.py --lora-r 8",
            "accelerate",
            {"lora_r": "8"},
        ),
        ("Dockerfile", 'CMD ["python", "train.py", "--fp16"]', "python", {"fp16": ""}),
    ],
)
def test_launch_lines(name: str, text: str, program: str, arguments: dict[str, str]) -> None:
    ((script, launch),) = read_launches(name, text.encode())
    assert script == "train.py"
    assert (launch.program, launch.arguments) == (program, arguments)


def test_comments_and_other_commands_start_nothing() -> None:
    text = b"# python train.py --fp16\necho python\npython 'unclosed.py\nrm train.py\n"
    assert [script for script, _ in read_launches("run.sh", text)] in ([], ["unclosed.py"])


def test_a_launch_is_bound_to_its_script_only() -> None:
    launches = {"train.py": [("src/train.py", Launch("run.sh", 1, "python"))]}
    assert bind(launches, "src/train.py")
    assert bind(launches, "./src/train.py")
    assert not bind(launches, "other/train.py")


def test_a_launch_line_decides_a_flag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(
        "import transformers\n"
        "model = transformers.AutoModel.from_pretrained('x', dtype='bfloat16')\n"
        "args, = transformers.HfArgumentParser(transformers.TrainingArguments)"
        ".parse_args_into_dataclasses()\n"
        "trainer = transformers.Trainer(model=model, args=args)\n"
    )
    Path("run.sh").write_text("python train.py --fp16 True --output_dir o\n")
    found = run_lint(LintOptions(only=("SCR111",))).findings
    assert [str(finding.status) for finding in found] == ["fail"]
    Path("run.sh").unlink()
    found = run_lint(LintOptions(only=("SCR111",))).findings
    assert "fail" not in [str(finding.status) for finding in found]


def test_directories_without_git_are_walked_without_vendored_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    for name in ("train.py", ".venv/a.py", "build/b.py", "x/site-packages/c.py", "src/d.py"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("x = 1\n")
    Path("loop").symlink_to(tmp_path, target_is_directory=True)
    Path("src/dead.py").symlink_to("nowhere.py")
    files = discover(["."])
    assert [path for path in files.scripts if path != "src/dead.py"] == ["src/d.py", "train.py"]
    assert discover(["."], ["src"]).scripts == ("train.py",)


def test_unreadable_files_and_pipes_are_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe.py")
    Path("dead.py").symlink_to("nowhere.py")
    linter = Linter(NOBODY, frozenset({"SCR001"}), (), {})
    for name in ("pipe.py", "dead.py"):
        ((hit, _),) = linter.file(name).hits
        assert hit.code == "SCR001"


SAMPLES = [TRAINS, Path(__file__).read_bytes()[:20_000], notebook(TRAINS.decode())]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_mutated_files_never_raise(data: st.DataObject) -> None:
    sample = bytearray(data.draw(st.sampled_from(SAMPLES)))
    for _ in range(data.draw(st.integers(1, 8))):
        start = data.draw(st.integers(0, len(sample)))
        end = min(len(sample), start + data.draw(st.integers(0, 40)))
        sample[start:end] = data.draw(st.binary(max_size=20))
    for name in ("a.py", "a.ipynb", "a.json", "a.yaml"):
        script = read_script(name, bytes(sample))
        if script is not None:
            assert not [hit for hit in lint(script, NOBODY) if "raised" in hit.message]
    list(read_launches("run.sh", bytes(sample)))

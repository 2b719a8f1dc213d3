"""What the linter says of the file that a run trains: a factory's, or a command's."""

from __future__ import annotations

from pathlib import Path

import pytest

from doctor.cli import own_script
from doctor.judge.check import Status
from doctor.script.reached import without_unreached

FILE = """
import torch
from torch import nn

class Deep(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(8, 8)] * depth)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x

class Plain(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(8, 8) for _ in range(depth)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x

def deep():
    model = Deep(4)
    return model, torch.randn(4, 8), torch.optim.SGD(model.parameters(), lr=0.1)

def plain():
    model = Plain(4)
    return model, torch.randn(4, 8), torch.optim.SGD(model.parameters(), lr=0.1)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(FILE)
    return path


def test_only_what_the_factory_leads_to_is_judged(file: Path) -> None:
    (finding,) = own_script.of_model(f"{file}:deep")
    assert finding.check.code == "SCR282"
    assert finding.status is Status.WARN
    assert "train.py, line 8" in finding.verdict.summary
    assert own_script.of_model(f"{file}:plain") == ()


def test_a_failure_of_the_linter_is_a_warning_beside_a_run(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(
        "import torch\nmodel = torch.nn.Linear(4, 2)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for x, y in loader:\n    loss = model(x).mean().item()\n    loss.backward()\n"
        "    optimizer.step()\n"
    )
    found = own_script.of_command(["/usr/bin/python3.12", "-u", str(file), "--lr", "1"])
    assert "loss-detached" in {each.check.slug for each in found}
    assert {each.status for each in found} == {Status.WARN}


@pytest.mark.parametrize(
    "command",
    [[], ["bash", "train.py"], ["python", "-m", "train"], ["torchrun", "absent.py"], ["./train"]],
)
def test_a_command_without_a_file_of_python(command: list[str]) -> None:
    assert own_script.of_command(command) == ()


def test_what_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def make(:\n")
    assert own_script.of_model(f"{tmp_path}/broken.py:make") == ()
    assert own_script.of_model(f"{tmp_path}/absent.py:make") == ()
    assert own_script.of_model("package.module:make") == ()


def test_lines_keep_their_numbers() -> None:
    kept = without_unreached(FILE.encode(), "plain").decode()
    assert kept.count("\n") == FILE.count("\n")
    assert "class Plain" in kept
    assert "class Deep" not in kept
    assert kept.splitlines().index("def plain():") == FILE.splitlines().index("def plain():")
    assert without_unreached(b"def f(:\n", "f") == b"def f(:\n"


def test_what_a_statement_or_a_decorator_uses_is_reached() -> None:
    text = b"def a(f):\n    return f\n\n@a\ndef make():\n    pass\n\ndef b():\n    pass\n\nc = b\n"
    assert without_unreached(text, "make") == text


def test_lines_of_the_doctor_are_not_judged(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    text = "import torch\n\ndef make():\n"
    text += "    model = torch.nn.Linear(4, 2)\n    return {'model': model}"
    unreached = "".join(f"\n\ndef other{n}():\n    return {n}" for n in range(20))
    file.write_text(text + unreached + "\n" * 30)
    assert own_script.of_model(f"{file}:make") == ()
    file.write_text(text)
    assert own_script.of_model(f"{file}:make") == ()


def test_rules_that_ask_for_a_training_judge_a_factory(tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(
        "import torch\n\ndef make():\n"
        "    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))\n"
        "    model.head = torch.nn.Linear(2, 2)\n"
        "    optimizer = torch.optim.Adam(model.parameters())\n"
        "    model.head = torch.nn.Linear(2, 3)\n"
        "    return {'model': model, 'optimizer': optimizer}\n"
    )
    (finding,) = own_script.of_model(f"{file}:make")
    assert finding.check.code == "SCR231"
    assert "line 7" in finding.verdict.summary


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    assert own_script.missing_file(["python3", "-u", str(script)]) == str(script)
    script.touch()
    assert not own_script.missing_file(["python3", "-u", str(script)])
    assert not own_script.missing_file(["python", "-m", "train.py"])
    assert not own_script.missing_file(["torchrun", "absent.py"])

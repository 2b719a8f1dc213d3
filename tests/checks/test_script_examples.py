"""The examples of the pages: each rule reports the bad half and not the good one."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from doctor.checks.script import CHECKS
from doctor.checks.script.lint import lint
from doctor.checks.script.table import RELEVANT
from doctor.facts.script_machine import ScriptMachine
from doctor.script.read import read_script

ROOT = Path(__file__).parents[2]
EXAMPLES = tomllib.loads((ROOT / "docs" / "lint-examples.toml").read_text())
FILES = EXAMPLES.pop("files")
IMPORTS = """import copy, packaging.version, peft, torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments
"""


def half(example: str, kept: str, dropped: str) -> str:
    lines = [line for line in example.strip("\n").splitlines() if not line.startswith(dropped)]
    return "\n".join(line[2:] if line[:2] in (f"{kept} ", "  ") else line for line in lines) + "\n"


def reported(code: str, text: str) -> bool:
    name = FILES.get(code, "train.py")
    data = (IMPORTS + text if name == "train.py" else text).encode()
    machine = ScriptMachine(transformers="5.23.0" if code == "SCR116" else None)
    script = read_script(name, data, relevant=RELEVANT)
    assert script is not None
    return any(hit.code == code and not hit.undecided for hit in lint(script, machine))


@pytest.mark.parametrize("code", [check.code for check in CHECKS])
def test_the_example_of_a_page_is_true(code: str) -> None:
    assert reported(code, half(EXAMPLES[code], "-", "+"))
    assert not reported(code, half(EXAMPLES[code], "+", "-"))

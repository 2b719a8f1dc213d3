"""Trainings that are right are silent; each mistake of a line or two in them is reported."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from script_code import LEFT_OUT

from doctor.checks.script.lint import lint
from doctor.checks.script.table import RELEVANT
from doctor.facts.script_machine import ScriptMachine
from doctor.script.python import read_python

TABLE = tomllib.loads(Path(__file__).with_name("script_variants.toml").read_text())
SPELLINGS = [
    *TABLE["spelling"],
    *tomllib.loads(Path(__file__).with_name("script_language.toml").read_text())["spelling"],
    *tomllib.loads(Path(__file__).with_name("script_formulas.toml").read_text())["spelling"],
    *tomllib.loads(Path(__file__).with_name("script_families.toml").read_text())["spelling"],
    *tomllib.loads(Path(__file__).with_name("script_twins.toml").read_text())["spelling"],
    *tomllib.loads(Path(__file__).with_name("script_parts.toml").read_text())["spelling"],
    *tomllib.loads(Path(__file__).with_name("script_names.toml").read_text())["spelling"],
    *tomllib.loads(Path(__file__).with_name("script_sound.toml").read_text())["spelling"],
    *tomllib.loads(Path(__file__).with_name("script_planted.toml").read_text())["spelling"],
    *tomllib.loads(Path(__file__).with_name("script_targets.toml").read_text())["spelling"],
]
CODE = {each["name"]: each["code"] for each in TABLE["training"]}


def reported(code: str) -> set[str]:
    script = read_python("train.py", code.encode(), relevant=RELEVANT)
    hits = lint(script, ScriptMachine())
    return {hit.code for hit in hits if hit.severity != "note" and not hit.undecided} - LEFT_OUT


@pytest.mark.parametrize("name", CODE)
def test_a_training_that_is_right_is_silent(name: str) -> None:
    assert reported(CODE[name]) == set()


@pytest.mark.parametrize("mistake", TABLE["mistake"], ids=lambda each: each["what"])
def test_a_change_that_is_a_mistake_is_reported(mistake: dict[str, Any]) -> None:
    code = CODE[mistake["of"]]
    for old, new in mistake["changes"]:
        assert old in code
        code = code.replace(old, new, 1)
    assert mistake["reports"] in reported(code)


@pytest.mark.parametrize("spelling", SPELLINGS, ids=lambda each: each["what"])
def test_another_spelling_is_reported_and_a_sound_neighbour_is_not(
    spelling: dict[str, Any],
) -> None:
    found = reported(spelling["code"])
    assert spelling["reports"] in found if spelling["reports"] else found == set()


UNEQUAL = """
import torch
from torch.utils.data import DataLoader
val_loader = DataLoader(val, batch_size=100{more})
def evaluate(model):
    model.eval()
    accuracies = []
    with torch.no_grad():
        for x, y in val_loader:
            accuracies.append((model(x).argmax(1) == y).float().mean().item())
    return sum(accuracies) / len(accuracies)
"""


def test_a_smaller_last_batch_in_a_mean_of_accuracies_is_a_note() -> None:
    for more, expected in (("", {"SCR265"}), (", drop_last=True", set())):
        script = read_python("train.py", UNEQUAL.format(more=more).encode(), relevant=RELEVANT)
        hits = lint(script, ScriptMachine())
        notes = {h.code for h in hits if h.severity == "note" and h.code == "SCR265"}
        assert notes == expected

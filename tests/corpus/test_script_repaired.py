"""Faults that were really made: the faulty file is reported, the repaired one is silent."""

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

TABLE = tomllib.loads(Path(__file__).with_name("script_repaired.toml").read_text())
FOUND = [each for each in TABLE["file"] if "reports" in each]
BESIDE = {"SCR142"}
"""The repaired loss of one file is right, and loses small probabilities, as the faulty one does."""


def one_side(code: str, kept: str, dropped: str) -> str:
    lines = [line.removeprefix(kept) for line in code.splitlines() if not line.startswith(dropped)]
    return "\n".join(lines)


def reported(code: str) -> set[str]:
    script = read_python("train.py", code.encode(), relevant=RELEVANT)
    hits = lint(script, ScriptMachine())
    return (
        {hit.code for hit in hits if hit.severity != "note" and not hit.undecided}
        - BESIDE
        - LEFT_OUT
    )


@pytest.mark.parametrize("item", FOUND, ids=lambda each: each["what"])
def test_the_faulty_file_is_reported(item: dict[str, Any]) -> None:
    assert item["reports"] in reported(one_side(item["code"], "<<", ">>"))


@pytest.mark.parametrize("item", TABLE["file"], ids=lambda each: each["what"])
def test_the_repaired_file_is_silent(item: dict[str, Any]) -> None:
    assert reported(one_side(item["code"], ">>", "<<")) == set()


@pytest.mark.parametrize("item", TABLE["sound"], ids=lambda each: each["what"])
def test_a_file_that_looks_like_a_fault_is_silent(item: dict[str, Any]) -> None:
    assert reported(item["code"]) == set()


def test_most_faults_are_found() -> None:
    assert len(FOUND) >= 0.75 * len(TABLE["file"])

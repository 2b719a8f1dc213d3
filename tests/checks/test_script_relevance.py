"""Files that no rule can fire in are not read; which ones is for the rules to say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from doctor.checks.script.lint import lint
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.table import BY_CODE, RULES, relevant
from doctor.checks.script.training import Training
from doctor.facts.script_machine import ScriptMachine
from doctor.script.read import read_script

PART = b"import torch\ntorch.flux(1)\n"
ELSEWHERE = b"import fluxes\nfluxes.flux(1)\n"


def fluxes(reading: Training) -> Iterator[Match]:
    for number in reading.methods("flux"):
        yield Match(reading.calls[number].span, "a flux")


@pytest.mark.parametrize(
    ("words", "code"),
    [((), PART), ((), b"optimizer = flux(1)\n"), (("flux",), ELSEWHERE)],
)
def test_a_new_rule_has_its_files_read(words: tuple[str, ...], code: bytes) -> None:
    new = replace(BY_CODE["SCR118"], code="SCR999", find=fluxes, words=words)
    assert fired(RULES, code) == []
    trains = code.startswith(b"optimizer")  # read, and no part of a training
    assert fired((*RULES, new), code) == ([] if trains else ["SCR999"])


def test_words_that_do_not_occur_omit_the_file() -> None:
    new = replace(BY_CODE["SCR118"], code="SCR999", find=fluxes, words=("capacitor",))
    assert fired((*RULES, new), ELSEWHERE) == []


@pytest.mark.parametrize(
    ("training", "code", "fires"),
    [
        (False, PART, True),
        (False, b"import pytest\n" + PART, False),
        (True, PART, False),
        (True, PART + b"loss.backward()\n", True),
        (False, ELSEWHERE, False),
    ],
)
def test_a_part_of_a_training_gets_the_rules_that_it_decides(
    training: bool, code: bytes, fires: bool
) -> None:
    new = replace(BY_CODE["SCR118"], code="SCR999", find=fluxes, words=(), training=training)
    assert ("SCR999" in fired((*RULES, new), code)) is fires


@pytest.mark.parametrize("code", ["fp16", "import torch.cuda.amp", "if version < 2: pass"])
def test_the_rules_that_are_not_about_training_have_their_files_read(code: str) -> None:
    assert relevant(RULES).search(code.encode())


def fired(rules: tuple[Rule, ...], code: bytes) -> list[str]:
    script = read_script("a.py", code, relevant=relevant(rules))
    assert script is not None
    return [hit.code for hit in lint(script, ScriptMachine(), rules)]

"""Files that no rule can fire in are not read; which ones is for the rules to say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from doctor.checks.script.lint import lint
from doctor.checks.script.rule import CODE, Match, Rule
from doctor.checks.script.table import BY_CODE, RULES, relevant
from doctor.checks.script.training import Training
from doctor.facts.script_machine import ScriptMachine
from doctor.script.read import read_script

CODE_WITHOUT_TRAINING = b"import torch\ntorch.flux(1)\n"


def fluxes(reading: Training) -> Iterator[Match]:
    for number in reading.methods("flux"):
        yield Match(reading.calls[number].span, "a flux")


@pytest.mark.parametrize("words", [(), ("flux",)])
def test_a_new_rule_fires_in_files_that_no_other_rule_reads(words: tuple[str, ...]) -> None:
    new = replace(BY_CODE["SCR118"], code="SCR999", find=fluxes, words=words)
    assert fired(RULES) == []
    assert fired((*RULES, new)) == ["SCR999"]


def test_words_that_do_not_occur_omit_the_file() -> None:
    new = replace(BY_CODE["SCR118"], code="SCR999", find=fluxes, words=("capacitor",))
    assert fired((*RULES, new)) == []


def test_every_rule_on_code_that_need_not_train_states_its_words() -> None:
    on_code = [rule for rule in RULES if not set(CODE).isdisjoint(rule.kinds)]
    assert not [rule.code for rule in on_code if not rule.training and not rule.words]


@pytest.mark.parametrize("code", ["fp16", "import torch.cuda.amp", "if version < 2: pass"])
def test_the_rules_that_are_not_about_training_have_their_files_read(code: str) -> None:
    gate = relevant(RULES)
    assert gate is not None
    assert gate.search(code.encode())


def fired(rules: tuple[Rule, ...]) -> list[str]:
    script = read_script("a.py", CODE_WITHOUT_TRAINING, relevant=relevant(rules))
    assert script is not None
    return [hit.code for hit in lint(script, ScriptMachine(), rules)]

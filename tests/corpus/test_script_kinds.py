"""Values of another kind than is required are reported, and the sound code beside each is not."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from script_code import LEFT_OUT

from doctor.checks.script.kinds.dimensions import DIMENSIONS, OF, converted
from doctor.checks.script.kinds.requirements import REQUIREMENTS
from doctor.checks.script.kinds.sources import SOURCES
from doctor.checks.script.lint import lint
from doctor.checks.script.table import RELEVANT
from doctor.facts.script_machine import ScriptMachine
from doctor.script.python import read_python

TABLE = tomllib.loads(Path(__file__).with_name("script_kinds.toml").read_text())


def reported(code: str) -> set[str]:
    text = TABLE["head"] + code + TABLE["tail"]
    script = read_python("train.py", text.encode(), relevant=RELEVANT)
    hits = lint(script, ScriptMachine())
    return {hit.code for hit in hits if hit.severity != "note" and not hit.undecided} - LEFT_OUT


@pytest.mark.parametrize("pair", TABLE["pair"], ids=lambda each: each["what"])
def test_the_wrong_one_of_a_pair_is_reported_and_the_sound_one_is_not(pair: dict[str, Any]) -> None:
    found = reported(pair["wrong"])
    assert pair["reports"] in found if pair["reports"] else found == set()
    assert reported(pair["sound"]) == set()


@pytest.mark.parametrize("trap", TABLE["trap"], ids=lambda each: each["what"])
def test_sound_code_that_looks_like_a_mistake_is_silent(trap: dict[str, Any]) -> None:
    assert reported(trap["code"]) == set()


def test_the_kinds_of_the_tables_exist_and_one_name_means_one() -> None:
    names = [kind.name for dimension in DIMENSIONS for kind in dimension.kinds]
    assert len(names) == len(set(names))
    sourced = {name for each in SOURCES for name in (*each.kinds, *sum(each.by.values(), ()))}
    required = {name for each in REQUIREMENTS for name in each.takes}
    assert sourced | required <= set(names)


def test_a_factor_leads_to_the_unit_that_it_makes() -> None:
    kinds = {kind.name: kind for dimension in DIMENSIONS for kind in dimension.kinds}
    for given, factor, made in (
        ("seconds", 1000, "milliseconds"),
        ("bytes", 1 / 1e9, "GiB"),
        ("a log-variance", 0.5, "a log standard deviation"),
        ("0 to 1", 255, "0 to 255"),
    ):
        found = converted(kinds[given], factor)
        assert found is not None
        assert found.name == made
        assert OF[made] is OF[given]
    assert converted(kinds["seconds"], 7) is None

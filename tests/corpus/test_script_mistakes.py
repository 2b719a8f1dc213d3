"""Mistakes that public threads describe: each is reported at its line, or is a known miss;
nothing is reported of what only looks like one.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from script_code import LEFT_OUT

from doctor.checks.script.lint import lint
from doctor.checks.script.table import BY_CODE, RELEVANT
from doctor.facts.script_machine import ScriptMachine
from doctor.script.python import read_python

FILES = (
    "script_mistakes.toml",
    "script_mistakes_learned.toml",
    "script_mistakes_held_out.toml",
    "script_mistakes_fresh.toml",
    "script_mistakes_blind.toml",
    "script_mistakes_second.toml",
    "script_traps.toml",
)
SCRIPTS: list[dict[str, Any]] = [
    script
    for name in FILES
    for script in tomllib.loads(Path(__file__).with_name(name).read_text())["script"]
]
NEAR = 3
"""Lines that a report may be away from the label."""


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script["mistake"])
def test_a_mistake_is_reported(script: dict[str, Any]) -> None:
    code = script["code"]
    healthy = script.get("healthy", False)
    line = 0 if healthy else code[: code.index(script["wrong"])].count("\n") + 1
    hits = lint(read_python("train.py", code.encode(), relevant=RELEVANT), ScriptMachine())
    found = any(
        (healthy or hit.span.line - NEAR <= line <= hit.span.end_line + NEAR)
        and not hit.undecided
        and hit.code not in LEFT_OUT
        and hit.severity in ("fail", "warn")
        and not (hit.code in BY_CODE and BY_CODE[hit.code].once)
        for hit in hits
    )
    hidden = script.get("missed", False) or not script.get("decidable", True)
    assert found is not (healthy or hidden)

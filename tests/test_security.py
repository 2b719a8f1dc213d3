"""SECURITY.md names tests that exist."""

from __future__ import annotations

import ast
import re

import pytest
from paths import ROOT

from doctor.cli.app import EVERY

DOCUMENT = ROOT / "SECURITY.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@pytest.mark.skipif(not DOCUMENT.exists(), reason="the documents are not at hand")
def test_every_entry_point_names_a_test_that_exists() -> None:
    text = DOCUMENT.read_text("utf-8")
    table = text.partition("## Entry points")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("|")][2:]
    assert len(rows) > 25
    for row in rows:
        (named,) = NAMED.findall(row)
        module = ast.parse((ROOT / named[0]).read_text("utf-8"))
        functions = {node.name for node in ast.walk(module) if isinstance(node, ast.FunctionDef)}
        assert named[1] in functions, row


def test_every_command_is_named() -> None:
    text = DOCUMENT.read_text("utf-8")
    assert [name for name in EVERY if not re.search(rf"`(doctor )?{name}\b", text)] == []


def test_the_readme_leads_to_it() -> None:
    assert "(SECURITY.md)" in (ROOT / "README.md").read_text("utf-8")

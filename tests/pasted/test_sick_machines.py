"""Machines of public issues: a healthy one is left alone, the cause of a sick one is named."""

from __future__ import annotations

from typing import Any

import pytest
from sick_machines import facts_of_row, rows

from doctor.cli.findings import findings_of
from doctor.facts.facts import decode, encode
from doctor.judge.check import Finding
from doctor.report.report import Outcome, Report

ROWS = rows()
SICK = [row for row in ROWS if row["label"] == "cause"]


def problems(row: dict[str, Any]) -> dict[str, Finding]:
    return {each.check.code: each for each in findings_of(facts_of_row(row)) if each.is_problem}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
def test_a_row_has_a_source_and_a_reason_and_its_facts_survive_a_file(row: dict[str, Any]) -> None:
    assert row["source"].startswith("https://github.com/")
    assert row["why"]
    facts = facts_of_row(row)
    assert decode(encode(facts)) == facts


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row["label"] != "cause"], ids=lambda row: row["id"]
)
def test_a_machine_that_its_owner_uses_gets_no_complaint(row: dict[str, Any]) -> None:
    assert problems(row) == {}


@pytest.mark.parametrize("row", SICK, ids=lambda row: row["id"])
def test_the_cause_of_the_thread_is_named_with_its_remedy(row: dict[str, Any]) -> None:
    named = {code: each for code, each in problems(row).items() if code in row["codes"]}
    assert named, list(problems(row))
    remedy = " ".join(text for each in named.values() for text in (each.fix, *each.commands))
    assert all(words.lower() in remedy.lower() for words in row["fix"]), remedy


@pytest.mark.parametrize("row", SICK, ids=lambda row: row["id"])
def test_a_machine_is_returned_where_the_thread_ends_with_other_hardware(
    row: dict[str, Any],
) -> None:
    report = Report(facts := facts_of_row(row), findings_of(facts), "fail")
    assert (report.outcome is Outcome.RETURN) == row["returned"]


def test_half_of_the_machines_are_healthy_and_half_are_sick() -> None:
    assert len(ROWS) - len(SICK) >= 20
    assert len(SICK) >= 20
    assert len({row["id"] for row in ROWS}) == len(ROWS)

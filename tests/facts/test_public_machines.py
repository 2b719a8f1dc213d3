"""Machines that work, as others published them: no check may complain of one."""

from __future__ import annotations

from typing import Any

import pytest
from public_machines import facts_of, rows, with_load

from doctor import catalog
from doctor.checks.torch_build import wheels
from doctor.facts.facts import Facts, decode, encode
from doctor.facts.interpreter import Torch
from doctor.facts.machine import Driver
from doctor.judge.check import Status
from doctor.judge.engine import examine

REPORTS, CAPTURES = rows("reports"), rows("captures")
ALL = REPORTS + CAPTURES


TORCH = {"torch": "2.10.0+cu128", "cuda": "12.8", "ran": True}
"""Given to the captures, which say nothing of torch."""


def facts(row: dict[str, Any]) -> Facts:
    return with_load(facts_of({**row, **TORCH})) if "nvml" in row else facts_of(row)


@pytest.mark.parametrize("row", ALL, ids=lambda row: row["id"])
def test_a_row_tells_where_it_is_from_and_becomes_facts(row: dict[str, Any]) -> None:
    assert row["source"].startswith("https://github.com/")
    assert row["why"]
    assert decode(encode(facts(row))) == facts(row)


def answerable(facts: Facts) -> set[str]:
    """Codes of the checks whose questions this row answers."""
    torch, read = facts.torch, isinstance(facts.driver, Driver)
    rules = {
        "DRV001": read,
        "DRV002": read and bool(getattr(torch, "archs", ())),
        "TOR002": isinstance(torch, Torch),
        "TOR003": bool(getattr(torch, "archs", ())) and not getattr(torch, "hip", None),
        "NUM001": isinstance(torch, Torch),
        "NUM003": isinstance(torch, Torch) and torch.cudnn is not None,
        **dict.fromkeys(("GPU002", "GPU003", "GPU004", "GPU005", "GPU006"), bool(facts.watched)),
    }
    return {code for code, applies in rules.items() if applies}


@pytest.mark.parametrize("row", ALL, ids=lambda row: row["id"])
def test_a_healthy_machine_gets_no_complaint(row: dict[str, Any]) -> None:
    findings = examine(catalog.MACHINE_CHECKS, facts(row))
    problems = [(f.check.code, f.verdict.summary) for f in findings if f.is_problem]
    assert problems == []
    unanswered = {f.check.code for f in findings if f.status is Status.UNKNOWN}
    assert unanswered & answerable(facts(row)) == set()


@pytest.mark.parametrize("row", CAPTURES, ids=lambda row: row["id"])
def test_captures_agree_with_the_table_of_drivers(row: dict[str, Any]) -> None:
    newest = wheels.Driver.read(row["driver"]).newest_cuda
    assert newest is not None
    assert f"{newest[0]}.{newest[1]}" == row["driver_cuda"]


def test_there_are_many_and_they_differ() -> None:
    assert len(REPORTS) >= 40
    assert len({row["id"] for row in ALL}) == len(ALL)
    names = {name for row in ALL for name, _ in row["gpus"]}
    assert len(names) >= 35
    assert {wheels.capability_of(name) for name in names} >= {
        (6, 0), (7, 0), (7, 5), (8, 0), (8, 6), (8, 7), (8, 9), (9, 0), (10, 0), (12, 0), (12, 1),
    }  # fmt: skip

"""Machines that work, as others published them: no check may complain of one."""

from __future__ import annotations

from typing import Any

import pytest
from public_machines import facts_of, rows, with_load

from doctor.checks.torch_build.wheels import Driver, capability_of
from doctor.facts.facts import Facts, decode, encode
from doctor.judge import catalog
from doctor.judge.check import Status
from doctor.judge.engine import examine

REPORTS, CAPTURES = rows("reports"), rows("captures")
ALL = REPORTS + CAPTURES
KNOWN = {
    ("capture_l40s", "GPU005"),  # 8 of 16 lanes, as every such instance has
    ("capture_t4", "GPU005"),
    ("b200x8_590_cu130", "NUM003"),  # a bug of decoding, which no training does
}
"""Warnings that these machines get today and should not."""


def facts(row: dict[str, Any]) -> Facts:
    return with_load(facts_of(row)) if "nvml" in row else facts_of(row)


@pytest.mark.parametrize("row", ALL, ids=lambda row: row["id"])
def test_a_row_tells_where_it_is_from_and_becomes_facts(row: dict[str, Any]) -> None:
    assert row["source"].startswith("https://github.com/")
    assert row["why"]
    assert decode(encode(facts(row))) == facts(row)


@pytest.mark.parametrize("row", ALL, ids=lambda row: row["id"])
def test_a_healthy_machine_gets_no_complaint(row: dict[str, Any]) -> None:
    findings = examine(catalog.CHECKS, facts(row))
    assert [f.check.code for f in findings if f.verdict.status is Status.FAIL] == []
    warned = {f.check.code for f in findings if f.verdict.status is Status.WARN}
    old = any(
        capability < (8, 0)
        for name, _ in row["gpus"]
        if (capability := capability_of(name)) is not None
    )
    by_design = {"NUM001"} if old else set()  # fp16 is taken for want of bf16
    assert warned - by_design == {code for name, code in KNOWN if name == row["id"]}


@pytest.mark.parametrize("row", CAPTURES, ids=lambda row: row["id"])
def test_captures_agree_with_the_table_of_drivers(row: dict[str, Any]) -> None:
    newest = Driver.read(row["driver"]).newest_cuda
    assert newest is not None
    assert f"{newest[0]}.{newest[1]}" == row["driver_cuda"]


def test_there_are_many_and_they_differ() -> None:
    assert len(REPORTS) >= 40
    assert len({row["id"] for row in ALL}) == len(ALL)
    names = {name for row in ALL for name, _ in row["gpus"]}
    assert len(names) >= 35
    assert {capability_of(name) for name in names} >= {
        (6, 0), (7, 0), (7, 5), (8, 0), (8, 6), (8, 7), (8, 9), (9, 0), (10, 0), (12, 0), (12, 1),
    }  # fmt: skip

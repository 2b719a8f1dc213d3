"""The letter to the provider of a machine that is to be returned."""

from __future__ import annotations

from dataclasses import replace

import pytest
from recorded import machines
from reports import finding, judged, report

from doctor.facts.machine import Examination
from doctor.judge.check import Owner, Status
from doctor.report.formats.letter import render
from doctor.report.report import Report

UUID = "GPU-00000000-0000-4000-8000-000000000000"


def letter(name: str) -> list[str]:
    facts = machines()[name]
    started = Examination(started="2026-01-31T09:05:00Z")
    return render(judged(facts.with_(examination=started))).split("\n")


def test_it_has_the_gpu_the_time_and_the_commands_to_repeat() -> None:
    lines = letter("row_remap_failed")
    assert lines[0].startswith("Subject: ")
    assert "GPU003" in lines[0]
    assert lines[2].startswith("On 2026-01-31 09:05:00 UTC")
    assert f"  UUID: {UUID}" in lines
    assert "  PCI bus: 00000000:01:00.0" in lines
    assert "  row remap failed: yes" in lines
    assert lines[-2:] == [
        "  nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT",
        "  doctor run --only GPU003",
    ]


def test_counters_are_those_before_and_after_the_test() -> None:
    lines = letter("xid_during_run")
    assert "  uncorrected memory errors: 0 before the test, 1 after it" in lines
    assert "  corrected memory errors: 0 before the test, 17 after it" in lines
    assert "  Xids during the test: 94" in lines


def test_a_counter_that_was_not_read_afterwards_is_not_called_unchanged() -> None:
    facts = machines()["row_remap_failed"].with_(watched=None)
    text = render(judged(facts))
    assert "uncorrected memory errors: 3 before the test, not read after it" in text
    assert "Xids" not in text


def test_only_the_gpus_that_the_faults_name_are_described() -> None:
    facts = machines()["two_a100"]
    second = "GPU 1 (NVIDIA A100-SXM4-80GB)"
    fault = finding("GPU003", Status.FAIL, f"{second}: lost", owner=Owner.MACHINE, returns=True)
    lines = render(Report(facts, (fault,))).split("\n")
    assert second in lines
    assert "GPU 0 (NVIDIA A100-SXM4-80GB)" not in lines
    silent = render(
        Report(facts, (finding("GPU003", Status.FAIL, owner=Owner.MACHINE, returns=True),))
    )
    assert "GPU 0 (NVIDIA A100-SXM4-80GB)" in silent.split("\n")


@pytest.mark.parametrize(
    "other",
    [report(), report(finding("NUM004", Status.FAIL)), report(finding("GPU4", Status.WARN))],
)
def test_there_is_nothing_to_send_unless_the_verdict_is_return(other: Report) -> None:
    assert render(other) == f"nothing to send: the verdict is {other.verdict_line}"


def test_an_ignored_fault_is_none() -> None:
    fault = finding("GPU003", Status.FAIL, owner=Owner.MACHINE, returns=True)
    assert "nothing to send" in render(report(replace(fault, ignored="known")))

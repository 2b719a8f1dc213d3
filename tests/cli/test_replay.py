"""`doctor report` on facts that triage saved gives the findings of the triage again."""

from __future__ import annotations

from pathlib import Path

import pytest

from doctor.cli.options import ConfigFlags
from doctor.cli.replay import replayed
from doctor.cli.triage import triage
from doctor.facts.facts import encode
from doctor.report.report import Report

LOGS = Path(__file__).parents[1] / "log" / "real"
NO_CONFIG = ConfigFlags(no_config=True)


def rows(report: Report) -> list[tuple[object, ...]]:
    return [
        (f.check.code, f.status, f.verdict.summary, f.verdict.fix, f.places)
        for f in report.findings
    ]


@pytest.mark.parametrize("name", ["one_rank_raises.log", "trainer_nan.log", "healthy.log"])
def test_the_findings_of_a_log_come_again_from_the_saved_facts(name: str, tmp_path: Path) -> None:
    first = triage([str(LOGS / name)], {}, NO_CONFIG)
    path = tmp_path / "facts.json"
    path.write_bytes(encode(first.facts))
    again = replayed(path, {}, NO_CONFIG, "fail")
    assert rows(again) == rows(first)
    assert (again.exit_code, again.replayed) == (first.exit_code, str(path))


def test_a_report_pasted_into_the_log_is_judged_again(tmp_path: Path) -> None:
    log = tmp_path / "issue.log"
    log.write_text(
        "Failed to initialize NVML: Driver/library version mismatch\n"
        "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
    )
    first = triage([str(log)], {}, NO_CONFIG)
    path = tmp_path / "facts.json"
    path.write_bytes(encode(first.facts))
    assert rows(replayed(path, {}, NO_CONFIG, "fail")) == rows(first)

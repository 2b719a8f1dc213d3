"""The Nagios line and its exit codes."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from reports import about, every_report, finding, report

from doctor.judge.check import Status
from doctor.report.formats import nagios
from doctor.report.report import Outcome


@pytest.mark.parametrize(
    ("name", "state", "code"),
    [
        ("h100_torch2.15", "OK", 0),
        ("h200_torch2.11", "WARNING", 1),
        ("v100_torch2.11", "CRITICAL", 2),
        ("hung_driver", "CRITICAL", 2),
        ("nothing_readable", "UNKNOWN", 3),
    ],
)
def test_nagios_states_and_exit_codes(name: str, state: str, code: int) -> None:
    judged = every_report()[name]
    assert nagios.render(judged).startswith(f"DOCTOR {state} - ")
    assert nagios.exit_code(judged) == code


def test_a_note_stands_behind_the_verdict() -> None:
    judged = replace(report(finding("NUM001", Status.PASS)), notes=("a.py: not read",))
    assert nagios.render(judged).startswith(
        "DOCTOR OK - READY: all checks passed; note: a.py: not read |"
    )


def test_a_nagios_line_has_one_bar_and_data_behind_it() -> None:
    for name, judged in every_report().items():
        with about(name):
            text, bar, data = nagios.render(judged).partition(" | ")
            assert (bar, "|" in text + data, "\n" in text + data) == (" | ", False, False)
            assert all(re.fullmatch(r"[a-z]+=[\d.]+s?(;\d*)*", part) for part in data.split())


def test_a_bar_or_line_break_in_a_summary_does_not_end_the_text() -> None:
    unread = report(finding("TOR001", Status.UNKNOWN, "a | b\nOK | c"))
    assert unread.outcome is Outcome.UNKNOWN
    assert nagios.render(unread).count("|") == 1
    assert "\n" not in nagios.render(unread)

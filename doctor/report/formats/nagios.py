"""The report as one line of a Nagios plugin, with the exit codes of Nagios.

OK 0: READY. WARNING 1: READY with warnings. CRITICAL 2: FIX or RETURN. UNKNOWN 3: UNKNOWN.
--fail-on does not affect them.
"""

from __future__ import annotations

from doctor._util.units import visible
from doctor.judge.check import Status
from doctor.report.phrases import one_line
from doctor.report.report import Outcome, Report

STATES = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
LONGEST = 500
"""Characters of the text before the performance data."""


def render(report: Report) -> str:
    """ "DOCTOR OK - READY: ... | pass=21 ...": performance data after the bar."""
    text = "; ".join([report.verdict_line, *(f"note: {note}" for note in report.notes)])
    verdict = visible(one_line(text.replace("|", "/"), LONGEST))
    counts = report.counts
    data = {
        "pass": f"{counts['pass']}",
        "warn": f"{counts['warn']};0",
        "fail": f"{counts['fail']};;0",
        "unknown": f"{counts['unknown']}",
        "skip": f"{counts['skip']}",
        "ignored": f"{counts['ignored']}",
        "time": f"{report.facts.seconds:.3f}s",
    }
    performance = " ".join(f"{name}={value}" for name, value in data.items())
    return f"DOCTOR {STATES[exit_code(report)]} - {verdict} | {performance}"


def exit_code(report: Report) -> int:
    """0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN."""
    if report.outcome is Outcome.UNKNOWN:
        return 3
    if report.outcome is not Outcome.READY:
        return 2
    return 1 if report.with_status(Status.WARN) else 0

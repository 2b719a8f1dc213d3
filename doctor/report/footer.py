"""How a report for people ends."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.judge.check import Status
from doctor.report.line import Line
from doctor.report.report import Outcome, Report

HANG = 5
"""Columns before further lines of the verdict: those of "FIX: "."""


def footer_lines(report: Report) -> Iterator[Line]:
    """Counts, the verdict and the next action."""
    counts = " · ".join(f"{count} {word}" for word, count in report.counts.items() if count)
    yield Line()
    yield Line("", f"{counts} · {report.facts.seconds:.1f} s")
    yield verdict_line(report)


def verdict_line(report: Report) -> Line:
    """The verdict and the next action."""
    return Line(f"{report.headline}: ", report.next_action, _verdict_style(report), hang=HANG)


def _verdict_style(report: Report) -> str:
    match report.outcome:
        case Outcome.READY:
            return "bold yellow" if report.with_status(Status.WARN) else "bold green"
        case Outcome.UNKNOWN:
            return "bold magenta"
    return "bold red"

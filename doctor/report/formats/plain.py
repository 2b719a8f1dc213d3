"""The report as plain text: no colour, no wrapping, whole addresses."""

from __future__ import annotations

from collections.abc import Iterable

from doctor._util.units import visible
from doctor.report import lint
from doctor.report.line import Detail, Line
from doctor.report.lines import report_lines
from doctor.report.report import Report


def render(report: Report, detail: Detail = "normal") -> str:
    """One finding per line, its fix indented below; no line starts with untrusted text.

    Of a lint: one line per place, without source lines and fixes.
    """
    if report.facts.subject == "scripts":
        return lint.concise(report, report.files, detail)
    return console(report, detail)


def console(report: Report, detail: Detail = "normal") -> str:
    """What `terminal` prints, without colour and wrapping."""
    return text(report_lines(report, detail))


def text(lines: Iterable[Line]) -> str:
    """Lines without colour; control characters are escaped."""
    return "\n".join(visible((line.prefix + line.body).rstrip()) for line in lines)

"""The report as plain text: no colour, no wrapping, whole addresses."""

from __future__ import annotations

from collections.abc import Iterable

from doctor._util.units import visible
from doctor.report.lines import Detail, Line, report_lines
from doctor.report.report import Report


def render(report: Report, detail: Detail = "normal") -> str:
    """Lines of text, one finding a line, remedies indented below; no stranger begins one."""
    return text(report_lines(report, detail))


def text(lines: Iterable[Line]) -> str:
    """Lines without colours; control characters are written out."""
    return "\n".join(visible((line.prefix + line.body).rstrip()) for line in lines)

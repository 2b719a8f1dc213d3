"""The report as plain text: no colour, no wrapping, whole addresses."""

from __future__ import annotations

from collections.abc import Iterable

from doctor.render.lines import Detail, Line, report_lines
from doctor.report import Report


def render(report: Report, detail: Detail = "normal") -> str:
    """Lines of text, one finding a line, remedies indented below."""
    return text(report_lines(report, detail))


def text(lines: Iterable[Line]) -> str:
    """Lines without colours."""
    return "\n".join((line.prefix + line.body).rstrip() for line in lines)

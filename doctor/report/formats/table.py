"""The formats of a report: the only list of their names, with what renders each.

A format is imported when it is used: every command knows the names, few need a renderer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from doctor.report.report import Report


def _console(report: Report) -> str:
    from doctor.report.formats import plain

    return plain.console(report)


def _plain(report: Report) -> str:
    from doctor.report.formats import plain

    return plain.render(report)


def _json(report: Report) -> str:
    from doctor.report.formats import json

    return json.render(report)


def _json_lines(report: Report) -> str:
    from doctor.report.formats import json

    return json.render_lines(report)


def _junit(report: Report) -> str:
    from doctor.report.formats import junit

    return junit.render(report)


def _github(report: Report) -> str:
    from doctor.report.formats import github

    return github.render(report)


def _markdown(report: Report) -> str:
    from doctor.report.formats import markdown

    return markdown.render(report)


def _sarif(report: Report) -> str:
    from doctor.report.formats import sarif

    return sarif.render(report)


def _gitlab(report: Report) -> str:
    from doctor.report.formats import gitlab

    return gitlab.render(report)


def _nagios(report: Report) -> str:
    from doctor.report.formats import nagios

    return nagios.render(report)


def _html(report: Report) -> str:
    from doctor.report.formats.html import page

    return page.render(report)


def _letter(report: Report) -> str:
    from doctor.report.formats import letter

    return letter.render(report)


def _nodes_good(report: Report) -> str:
    from doctor.report.formats import nodes

    return nodes.render_good(report)


def _nodes_bad(report: Report) -> str:
    from doctor.report.formats import nodes

    return nodes.render_bad(report)


def _prometheus(report: Report) -> str:
    from doctor.report.formats import prometheus

    return prometheus.render(report)


FORMATS: dict[str, Callable[[Report], str]] = {
    "console": _console,  # in a file; `terminal` prints it in colour
    "plain": _plain,
    "json": _json,
    "jsonl": _json_lines,
    "junit": _junit,
    "github": _github,
    "markdown": _markdown,
    "sarif": _sarif,
    "gitlab": _gitlab,
    "nagios": _nagios,
    "html": _html,
    "letter": _letter,
}

EXTRACTS: dict[str, Callable[[Report], str]] = {
    "prometheus": _prometheus,
    "nodes-good": _nodes_good,
    "nodes-bad": _nodes_bad,
}
"""What other programs take from a report: no report of its own."""

RENDERERS = FORMATS | EXTRACTS

OLDER = {"concise": "plain", "text": "plain"}
"""Older names of formats, still accepted."""

Format = str
"""A name of `RENDERERS`."""


def parse_format(name: str) -> Format:
    """The format's name. Raises ValueError for what is none."""
    format = OLDER.get(name, name)
    if format not in RENDERERS:
        raise ValueError(f"{name!r} is not one of {', '.join(map(repr, RENDERERS))}")
    return format

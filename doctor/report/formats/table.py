"""The formats of a report: the only list of their names, with what renders each.

A format is imported when it is used: every command knows the names, few need a renderer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from doctor.report.report import Report


def _plain(report: Report) -> str:
    from doctor.report.formats import plain

    return plain.render(report)


def _json(report: Report) -> str:
    from doctor.report.formats import json

    return json.render(report)


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


def _nagios(report: Report) -> str:
    from doctor.report.formats import nagios

    return nagios.render(report)


def _html(report: Report) -> str:
    from doctor.report.formats.html import page

    return page.render(report)


FORMATS: dict[str, Callable[[Report], str]] = {
    "console": _plain,  # in a file; `terminal` prints it in colour
    "plain": _plain,
    "json": _json,
    "junit": _junit,
    "github": _github,
    "markdown": _markdown,
    "sarif": _sarif,
    "nagios": _nagios,
    "html": _html,
}

_NOT_OF_LINT = ("console", "nagios", "html")
LINT_FORMATS = ("console", "concise", *(name for name in FORMATS if name not in _NOT_OF_LINT))
"""Those of `doctor lint`: it examines no machine to monitor, and has no page of its own."""

if TYPE_CHECKING:
    Format = str
    LintFormat = str
else:  # typer reads the choices from them
    Format = Literal[tuple(FORMATS)]
    LintFormat = Literal[LINT_FORMATS]

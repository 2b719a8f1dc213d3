"""The formats of a report: the only list of their names, with what renders each.

A format is imported when it is used: every command knows the names, few need a renderer.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from doctor.report.report import Report


def _renderer(module: str, function: str = "render") -> Callable[[Report], str]:
    def render(report: Report) -> str:
        made = import_module(f"doctor.report.formats.{module}")
        return str(getattr(made, function)(report))

    return render


FORMATS: dict[str, Callable[[Report], str]] = {
    "console": _renderer("plain", "console"),  # in a file; `terminal` prints it in colour
    "plain": _renderer("plain"),
    "json": _renderer("json"),
    "jsonl": _renderer("json", "render_lines"),
    "junit": _renderer("junit"),
    "github": _renderer("github"),
    "markdown": _renderer("markdown"),
    "sarif": _renderer("sarif"),
    "gitlab": _renderer("gitlab"),
    "nagios": _renderer("nagios"),
    "html": _renderer("html.page"),
    "letter": _renderer("letter"),
}

EXTRACTS: dict[str, Callable[[Report], str]] = {
    "prometheus": _renderer("prometheus"),
    "nodes-good": _renderer("nodes", "render_good"),
    "nodes-bad": _renderer("nodes", "render_bad"),
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

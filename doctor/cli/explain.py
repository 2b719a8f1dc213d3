"""`doctor explain`: a name of the catalogue, a section of a document, or a pasted text."""

from __future__ import annotations

import sys
from typing import Literal

from doctor._util.errors import UserError
from doctor.judge import catalog
from doctor.judge.check import Check
from doctor.report import documents

STDIN = "-"
LONGEST = 1 << 20
"""Bytes of a text that are read."""

Format = Literal["plain", "markdown", "json"]


def explain(name: str, format: Format = "plain") -> str:
    """What `doctor explain NAME` prints. Raises UserError with the nearest names."""
    if name == STDIN:
        return _text(_stdin(), format)
    if sections := documents.find(name):
        return documents.json_text(sections) if format == "json" else documents.explain(sections)
    if catalog.is_name(name):
        return _checks(catalog.lookup(name), format)
    return _text(name, format)


def _stdin() -> str:
    if sys.stdin.isatty():
        raise UserError("- (stdin) is a terminal; pipe the text into the command")
    return sys.stdin.buffer.read(LONGEST).decode("utf-8", "replace")


def _text(text: str, format: Format) -> str:
    from doctor.cli.explain_text import explain_text

    answer = explain_text(text)
    return answer.text() if format == "plain" else _checks(answer.checks, format)


def _checks(checks: tuple[Check, ...], format: Format) -> str:
    if format == "json":
        from doctor.report.formats import json

        return json.render_checks(checks)
    if format == "markdown":
        from doctor.report import pages

        return "\n".join(pages.page(check) for check in checks)
    from doctor.report import explain

    return explain.explain(checks)

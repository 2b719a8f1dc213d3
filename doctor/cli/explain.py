"""`doctor explain`: a name of the catalogue, or a text that somebody pasted."""

from __future__ import annotations

import sys
from typing import Literal

from doctor._util.errors import UserError
from doctor.judge import catalog
from doctor.judge.check import Check

STDIN = "-"
LONGEST = 1 << 20
"""Bytes of a text that are read."""


def explain(name: str, format: Literal["plain", "markdown", "json"] = "plain") -> str:
    """What `doctor explain NAME` prints. Raises UserError with the nearest names."""
    text = _text_of(name)
    if text is None:
        return _checks(catalog.lookup(name), format)
    from doctor.cli.explain_text import explain_text

    answer = explain_text(text)
    return answer.text() if format == "plain" else _checks(answer.checks, format)


def _text_of(name: str) -> str | None:
    """The text to explain; None where the argument is a name. Raises UserError."""
    if name != STDIN:
        return None if catalog.is_name(name) else name
    if sys.stdin.isatty():
        raise UserError("- (stdin) is a terminal; pipe the text into the command")
    return sys.stdin.buffer.read(LONGEST).decode("utf-8", "replace")


def _checks(checks: tuple[Check, ...], format: str) -> str:
    if format == "json":
        from doctor.report.formats import json

        return json.render_checks(checks)
    if format == "markdown":
        from doctor.report import pages

        return "\n".join(pages.page(check) for check in checks)
    from doctor.report import explain

    return explain.explain(checks)

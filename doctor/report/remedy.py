"""The fix of a finding and its commands, as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from doctor.judge.check import Finding
from doctor.report.actions import labelled
from doctor.report.line import DEEP, Line

PYTHON = "edit"
"""The kind of commands that belong into a script, which no shell understands."""


def fix_lines(finding: Finding, fix: Sequence[str]) -> Iterator[Line]:
    """The fix below the finding, then each command with its kind, as `actions` of JSON have it.

    No line is only indented, so that the line end of a value in a fix forges neither a verdict nor
    a command of a CI, which ignores blanks.
    """
    for number, part in enumerate(fix):
        yield Line(f"{DEEP}   | " if number else f"{DEEP}fix: ", part)
    for kind, command in labelled(finding):
        prompt = ">>> " if kind == PYTHON else "$ "
        yield Line(
            f"{DEEP}  {f'{kind} ' if kind else ''}{prompt}", command, "dim", "bold", whole=True
        )

"""The fix of a finding and its commands, as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from doctor.judge.check import Finding
from doctor.report.actions import Kind, labelled
from doctor.report.line import DEEP, Line

PYTHON = "edit"
"""The kind of commands that belong into a script, which no shell understands."""


def steps(finding: Finding, fix: Sequence[str]) -> Iterator[tuple[bool, Kind | None, str]]:
    """The lines of the fix and the commands: whether it is a command, its kind, the text.

    A line of the fix that is one of the commands stands once, where the fix has it.
    """
    commands = list(labelled(finding))
    for line in fix:
        same = [each for each in commands if each[1] in (line, f"export {line}")]
        if same:
            commands.remove(same[0])
            yield True, *same[0]
        else:
            yield False, None, line
    yield from ((True, *each) for each in commands)


def fix_lines(finding: Finding, fix: Sequence[str]) -> Iterator[Line]:
    """The fix below the finding and its commands, with the kinds that `actions` of JSON have.

    No line is only indented, so that the line end of a value in a fix forges neither a verdict nor
    a command of a CI, which ignores blanks.
    """
    for number, (is_command, kind, text) in enumerate(steps(finding, fix)):
        if is_command:
            prompt = ">>> " if kind == PYTHON else "$ "
            prefix = f"{DEEP}  {f'{kind} ' if kind else ''}{prompt}"
            yield Line(prefix, text, "dim", "bold", whole=True)
        else:
            yield Line(f"{DEEP}   | " if number else f"{DEEP}fix: ", text)

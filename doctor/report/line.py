"""A line of a report for people, and how statuses look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from doctor.judge.check import Status

Detail = Literal["quiet", "normal", "verbose"]

STYLES = {
    Status.PASS: "green",
    Status.NOTE: "cyan",
    Status.WARN: "yellow",
    Status.FAIL: "bold red",
    Status.SKIP: "dim",
    Status.UNKNOWN: "magenta",
}
WORDS = {
    Status.PASS: "pass",
    Status.NOTE: "note",
    Status.WARN: "WARN",
    Status.FAIL: "FAIL",
    Status.SKIP: "skip",
    Status.UNKNOWN: "????",
}
DEEP = " " * 7
"""Before what belongs to a finding."""
HANG = len(DEEP) * 2
"""Columns before the continuation lines of a finding."""
NARROW = 20
"""Columns that text is wrapped to at least."""


@dataclass(frozen=True, slots=True)
class Line:
    """A styled prefix and a body that is wrapped; continuation lines start at `indent`."""

    prefix: str = ""
    body: str = ""
    style: str = ""
    body_style: str = ""
    hang: int | None = None

    @property
    def indent(self) -> int:
        """Columns before continuation lines: the prefix's width, or `hang` where given."""
        return len(self.prefix) if self.hang is None else self.hang

    def indent_at(self, width: int | None) -> int:
        """The same for a terminal of `width` columns, where that leaves too little room."""
        return self.indent if width is None else min(self.indent, max(0, width - NARROW))

    def wrapped(self, width: int | None) -> list[str]:
        """The body's lines for a terminal of `width` columns; addresses are not broken.

        The first is "" where so little room is left after the prefix that the body starts below it.
        """
        if width is None or not self.body:
            return [self.body]
        indent = self.indent_at(width)
        below = width < len(self.prefix) + NARROW
        room = "" if below else " " * (len(self.prefix) - indent)
        import textwrap

        lines = textwrap.wrap(
            self.body,
            max(NARROW, width - indent),
            initial_indent=room,
            break_long_words=False,
            break_on_hyphens=False,
        )
        return ["", *lines] if below else [lines[0][len(room) :], *lines[1:]] if lines else [""]

"""A line of a report for people, and how statuses look."""

from __future__ import annotations

import re
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


CODE = re.compile(r"`[^`]+`|[\w.]+\([^()]*\)")
"""What is not broken although it has spaces: code between backticks, and calls."""
JOINED = "\ue000"
"""In place of such a space while the text is wrapped."""


@dataclass(frozen=True, slots=True)
class Line:
    """A styled prefix and a body that is wrapped; continuation lines start at `indent`."""

    prefix: str = ""
    body: str = ""
    style: str = ""
    body_style: str = ""
    hang: int | None = None
    whole: bool = False
    """The body is a command: it is not wrapped, and begins in column 0 where it has no room."""
    span: tuple[int, int] | None = None
    """Columns of the body: it is cut to the width around them, not wrapped."""

    @property
    def indent(self) -> int:
        """Columns before continuation lines: the prefix's width, or `hang` where given."""
        return len(self.prefix) if self.hang is None else self.hang

    def rows(self, width: int | None) -> list[tuple[str, str]]:
        """The rows for a terminal of `width` columns: a prefix or an indentation, and a part of the
        body. Addresses and code are not broken: what has no room begins in column 0.
        """
        if width is None or not self.body or (self.whole and self._fits(width)):
            return [(self.prefix, self.body)]
        if self.span is not None:
            start, end = self.span
            room = max(NARROW, width - len(self.prefix))
            left = max(0, min(start, end - room))
            return [(self.prefix, self.body[left : left + room])]
        if self.whole:
            return [(self.prefix, ""), ("", self.body)]
        indent = min(self.indent, max(0, width - NARROW))
        below = width < len(self.prefix) + NARROW
        first = "" if below else " " * (len(self.prefix) - indent)
        parts = _wrapped(self.body, max(NARROW, width - indent), first)
        rows = [(" " * indent * (len(part) <= width - indent), part) for part in parts]
        if below or not rows:
            return [(self.prefix, ""), *rows]
        return [(self.prefix, rows[0][1][len(first) :]), *rows[1:]]

    def _fits(self, width: int) -> bool:
        return len(self.prefix) + len(self.body) <= width


def _wrapped(text: str, width: int, first: str) -> list[str]:
    import textwrap

    parts = textwrap.wrap(
        CODE.sub(lambda match: match[0].replace(" ", JOINED), text),
        width,
        initial_indent=first,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [part.replace(JOINED, " ") for part in parts]

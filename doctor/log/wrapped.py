"""Messages that a terminal or a forum broke in the middle of a line."""

from __future__ import annotations

from doctor.log.tracebacks import FRAME, HEADER, split_prefix

GLUES = (" ", "")
"""A forum breaks at a space, a terminal at a column, within a word too."""
WIDE = 60
"""Characters of a line that may have been broken at its end. Our own number, below 80 columns."""


def unwrapped(text: str, glue: str) -> str:
    """The text with lines joined that look broken; an empty line stands for each that was joined,
    so that the numbers of the others stay."""
    lines = text.splitlines()
    joined: list[str] = []
    at = 0
    while at < len(lines):
        whole, broken = lines[at], 0
        while at + broken + 1 < len(lines) and _goes_on(lines[at + broken], lines[at + broken + 1]):
            broken += 1
            whole += glue + lines[at + broken].strip()
        joined += [whole, *[""] * broken]
        at += broken + 1
    return "\n".join(joined) + "\n"


def _goes_on(line: str, following: str) -> bool:
    """Whether the second line may be the rest of the first: a wide line, and one without a prefix
    or the indentation of code."""
    indentation = len(following) - len(following.lstrip())
    if len(line.rstrip()) < WIDE or indentation > 1 or not following.strip():
        return False
    is_of_stack = FRAME.search(line) or FRAME.search(following) or HEADER in following
    return not is_of_stack and not split_prefix(following)[0]

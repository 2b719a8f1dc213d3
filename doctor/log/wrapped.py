"""Messages that a terminal or a forum broke in the middle of a line."""

from __future__ import annotations

import re

from doctor.log.metrics.text import METRIC, NONFINITE
from doctor.log.tracebacks import FRAME, HEADER, split_prefix

GLUES = (" ", "")
"""A forum breaks at a space, a terminal at a column, within a word too."""
WIDE = 60
"""Characters of a line that may have been broken at its end. Our own number, below 80 columns."""
FILLED = 50
"""Characters of a line that was broken at a space, with the next word. Our own number."""
LONGEST = 12
"""Breaks within a sentence. Our own number."""
ENDED = re.compile(r"[.!?}>|]\s*$")
"""How a line ends that is whole."""
LISTED = re.compile(
    r"\s*(?:[\w-]{1,30}:\s|[\w/.-]{1,60}\s?[:=]\s*[-\d'\"\[{]|"
    r"(?:\w{1,60}\.){0,8}\w{0,60}(?:Error|Exception|Warning)\b)"
)
"""How a line begins that is one of several, or an exception."""
REST = re.compile(r"\s*[a-z(]")
"""How the rest of a sentence begins."""

PAIR = re.compile(
    r"(?<![\w./-])[A-Za-z_][\w./-]{0,40}['\"]?(?:\s?[:=]\s{0,4}|\s{1,4})[-+]?(?:\d|(?:nan|inf)\b)",
    re.IGNORECASE,
)
"""A name and a number, of which a row of values has two or more."""


def flowing(text: str) -> str:
    """The text with the sentences joined that were broken over lines, indented or not. A line that
    is like the one before it begins anew."""
    joined: list[str] = []
    last, parts = "", 0
    for line in text.splitlines():
        parts = parts + 1 if parts < LONGEST and _is_rest(last, line) else 0
        if parts:
            joined[-1] = f"{joined[-1].rstrip()} {line.strip()}"
        else:
            joined.append(line)
        last = line
    return "\n".join(joined)


def _is_rest(line: str, following: str) -> bool:
    """Whether the second line is the rest of a sentence that the first one leaves open."""
    if not line.strip() or ENDED.search(line) or not REST.match(following):
        return False
    if len(line.rstrip()) + len(following.split()[0]) < FILLED:
        return False
    if LISTED.match(following) or line.split()[0] == following.split()[0]:
        return False
    if len(line) - len(line.lstrip()) > len(following) - len(following.lstrip()):
        return False  # the code of a stack, before its message
    if _is_row(line) or _is_row(following):
        return False
    return not (FRAME.search(line) or HEADER in line or split_prefix(following)[0])


def _is_row(line: str) -> bool:
    """Whether a line is a row of values, which stands for itself."""
    lower = line.lower().encode()
    if METRIC.search(lower) or NONFINITE.search(lower):
        return True
    return len(PAIR.findall(line)) > 1


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

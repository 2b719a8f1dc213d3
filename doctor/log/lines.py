"""One line of a log: its text, and the rank and the time that its prefix gives."""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass

LONGEST = 16384
"""Bytes of a line that are read."""
EXCERPT = 600
"""Characters of a line that are kept."""
ESCAPES = re.compile(
    rb"\x1b(?:\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)?|[PX^_][^\x1b]{0,4096}(?:\x1b\\)?"
    rb"|\[[0-?]{0,64}[ -/]{0,8}[@-~]?|[ -/]{0,8}[0-~])"
)
"""Escape sequences of terminals: colours, cursor movements, titles, links."""
CONTROL_BYTES = bytes(code for code in (*range(32), 127) if chr(code) not in "\t\n\r")
CONTROLS = {code: None for code in (*range(32), *range(127, 160)) if code != 9}

EXPLICIT_RANK = re.compile(
    r"\[default\d{1,6}\]:? ?\[rank(\d{1,6})\]"  # --tee names the local rank, torch the global one
    r"|\[(?:rank|Rank |default|RANK )(\d{1,6})\]"
    r"|\b[Rr]ank[ =:](\d{1,6})\]|^(?:\[\w+\] )?[Rr]ank[ _]?(\d{1,6}):"
)
RANK = re.compile(
    r"^\[\d+,(\d{1,6})\]<std(?:out|err)>"  # Open MPI --tag-output
    r"|^\s*(\d{1,6}): "  # srun --label
    r"|^\[(?:\w+-)?(\d{1,4})\] ?:? ?(?=\S)"  # Intel MPI, Hydra -prepend-rank
)
"""A number that may as well be of a line: where the line names a rank, that one counts."""
LOCAL_RANK = re.compile(r"\blocal_rank: (\d{1,4}) \(pid")
"""In the lines of a launcher, which name no other rank."""
PREFIX = 120
"""Characters at the start of a line that may name the rank."""
DATED = re.compile(
    r"(?<!\d)(\d{4})[-/](\d\d)[-/](\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(?:Z|\b)"
)
US_DATED = re.compile(
    r"(?<!\d)(\d\d)/(\d\d)/(\d{4}|\d\d)[ T-]{1,3}(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?"
)
GLOG = re.compile(r"\b[IWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?")
SYSLOG = re.compile(
    r"\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +(\d{1,2}) (\d\d):(\d\d):(\d\d)"
)
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
LEAP_YEAR = 2000
"""For times without a year."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line without escape sequences and control characters."""

    number: int
    """From 1, in lines that end with a newline."""
    text: str
    patterns: tuple[int, ...] = ()
    """The numbers of the patterns that may match it."""

    @property
    def rank(self) -> int | None:
        named = self.named_rank
        return named if named is not None else _digits(RANK.search(self.text[:PREFIX]))

    @property
    def named_rank(self) -> int | None:
        """The rank that the line calls so; a bare number may as well be a step."""
        return _digits(EXPLICIT_RANK.search(self.text[:PREFIX]))


def _digits(match: re.Match[str] | None) -> int | None:
    return int(match[match.lastindex]) if match and match.lastindex else None


def local_rank(text: str) -> int | None:
    """The rank of a node's launcher that a line is about."""
    match = LOCAL_RANK.search(text)
    return int(match[1]) if match else None


def clean(raw: bytes) -> str:
    """The text of a line; invalid UTF-8 becomes U+FFFD, control characters vanish."""
    return raw[:LONGEST].decode("utf-8", "replace").translate(CONTROLS).strip("\r\n")


def normalized(block: bytes) -> bytes:
    """The block without escape sequences and control characters, but for tabs and line ends."""
    if b"\x1b" in block:
        block = ESCAPES.sub(b"", block)
    return block.translate(None, CONTROL_BYTES)


def time_of(text: str) -> float | None:
    """Seconds since 1970 of the first time stamp in a line, None if it has none or no such day.

    A time without a year is in the year 2000: it orders lines, and is never printed as a date.
    """
    head = text[: 2 * PREFIX]
    try:
        return _time_of(head)
    except ValueError:
        return None


def _time_of(head: str) -> float | None:
    if match := DATED.search(head):
        year, month, day, *clock = match.groups()
    elif match := US_DATED.search(head):
        month, day, year, *clock = match.groups()
        year = year if len(year) == 4 else f"20{year}"
    elif match := GLOG.search(head):
        year, (month, day, *clock) = str(LEAP_YEAR), match.groups()
    elif match := SYSLOG.search(head):
        name, day, *clock = match.groups()
        year, month, clock = str(LEAP_YEAR), str(MONTHS.index(name) + 1), [*clock, None]
    else:
        return None
    return _seconds(int(year), int(month), int(day), clock)


def _seconds(year: int, month: int, day: int, clock: list[str | None]) -> float:
    """Raises ValueError where there is no such day or time."""
    hour, minute, second = (int(part or 0) for part in clock[:3])
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second <= 60):
        raise ValueError("no such time")
    fraction = float(f"0.{clock[3]}") if clock[3] else 0.0
    return calendar.timegm((year, month, day, hour, minute, second)) + fraction


def excerpt(text: str, around: int = 0) -> str:
    """At most `EXCERPT` characters of a line, with the position `around` among them."""
    text = text.expandtabs(4).rstrip()
    if len(text) <= EXCERPT:
        return text
    start = max(0, min(around - EXCERPT // 3, len(text) - EXCERPT))
    return "..." * bool(start) + text[start : start + EXCERPT] + "..."

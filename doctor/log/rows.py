"""The rows of a block by offsets. Rows end with \\n, \\r\\n or \\r; lines with \\n only."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

ROW = re.compile(rb"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
LOOK_BACK = 1 << 15
"""Bytes before a row that are read backwards."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that may matter, in their order; the other rows of the block are of no class."""

    starts: Sequence[int]
    ends: Sequence[int]
    """After the end of the row."""
    lines: Sequence[int]
    """Newlines before each row."""
    unclear: Sequence[int]
    """Indices of the rows that must be classified; the others hold nothing but finite metrics."""
    newlines: int
    """In the whole block."""


def every_row(block: bytes) -> Rows:
    """All rows, none of them classified."""
    ends = [match.end() for match in ROW.finditer(block)]
    starts = [0, *ends[:-1]] if ends else []
    lines, number = [], 0
    for end in ends:
        lines.append(number)
        number += block[end - 1] == 10
    return Rows(starts, ends, lines, list(range(len(ends))), number)


def rows_after(block: bytes, start: int) -> Iterator[tuple[int, int]]:
    """Start and end of each row from an offset on, at which a row begins."""
    for match in ROW.finditer(block, start):
        yield match.span()


def rows_before(block: bytes, start: int) -> Iterator[bytes]:
    """The rows just before an offset, the nearest first."""
    return reversed(block[max(0, start - LOOK_BACK) : start].splitlines())

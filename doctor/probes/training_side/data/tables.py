"""Tables of text: what separates the columns, read from the header and the rows below it."""

from __future__ import annotations

import csv
import io
import re
from typing import List

DELIMITERS = (",", ";", "\t", "|")
HEAD = 1 << 16
MOST_ROWS = 50
QUOTED = re.compile(r'"[^"]*"')


def delimiter_of(head: str, usual: str, whole: bool) -> str:
    """The delimiter that gives the header several columns, and each row as many; else the one that
    splits the header into most columns, else the usual one. `whole`: the file ends with `head`."""
    lines = head.splitlines()
    header = QUOTED.sub("", lines[0]) if lines else ""
    there = sorted((each for each in DELIMITERS if each in header), key=lambda d: d != usual)
    fitting = [each for each in there if _fits(head, each, whole)]
    return max(fitting or there, key=header.count, default=usual)


def _fits(head: str, delimiter: str, whole: bool) -> bool:
    try:
        read = list(csv.reader(io.StringIO(head, newline=""), delimiter=delimiter))
    except csv.Error:
        return False
    complete: List[List[str]] = read if whole else read[:-1]
    return len({len(row) for row in complete[:MOST_ROWS] if row}) == 1

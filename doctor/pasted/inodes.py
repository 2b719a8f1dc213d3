"""`df -i`: a file system without free inodes, where a program found no space."""

from __future__ import annotations

import re

from doctor.facts.host import Reported
from doctor.pasted.reading import Reading

HEAD = re.compile(r"\s*Filesystem\b.{0,60}\bInodes\s+IUsed\s+IFree\s+IUse%")
ROW = re.compile(
    r"\s*(\S{1,200})(?:\s+\w{2,12})?\s+[\d.]+\w?\s+[\d.]+\w?\s+0\s+100%\s+(/\S{0,200})\s*$"
)
READ_ONLY = re.compile(r"/dev/loop|squashfs|/snap/|iso9660|/dev/sr\d")
"""File systems that are always full."""
REFUSED = re.compile(r"No space left on device|Errno 28|ENOSPC|[Nn]o free inodes")
LONGEST_TABLE = 60


def read(lines: list[str]) -> Reading:
    """The full file systems of the first table, if the text has an error of a full one."""
    head = next((n for n, line in enumerate(lines) if HEAD.match(line)), None)
    if head is None or not any(map(REFUSED.search, lines)):
        return Reading()
    rows = [match for line in lines[head + 1 : head + LONGEST_TABLE]
            if (match := ROW.match(line)) and not READ_ONLY.search(line)]  # fmt: skip
    full = tuple(
        Reported(cause="disk-full", line=f"{row[1]} on {row[2]} has no free inodes") for row in rows
    )
    return Reading(kinds=("df -i",), reported=full) if full else Reading()

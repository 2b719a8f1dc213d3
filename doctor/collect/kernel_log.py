"""The kernel log: read from /dev/kmsg without waiting, where this user may read it. No command is
started."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from doctor.errors.fitted import worded
from doctor.errors.match import lines_of, table_of
from doctor.facts.host import Reported
from doctor.facts.kernel_lines import events

OF_KERNEL = ("kernel_modules", "machine_log")
"""Tables of `doctor.errors` with lines of kernel logs."""

MOST_BYTES = 16 * 2**20
"""More than any kernel keeps."""


NVIDIAS = re.compile(r"NVRM|nvidia-nvswitch|nvidia-gridd|modprobe: .{0,20}unsigned")
"""Lines of its driver, which name no process."""


def read_kernel_log(root: Path = Path("/")) -> dict[str, Any]:
    """Fields of `Host`: the errors of GPUs, oldest first, and lines that name a known fault; none
    if the log cannot be read."""
    try:
        file = os.open(root / "dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return {}
    try:
        text = b"".join(_records(file)).decode("utf-8", "replace")
    finally:
        os.close(file)
    lines = text.splitlines()
    own = [line.partition(";")[2] for line in lines if NVIDIAS.search(line)]
    return {"kernel_events": events(lines), "reported": tuple(known_faults(own))}


def known_faults(lines: Sequence[str]) -> Iterator[Reported]:
    """One line of each wording that explains why a machine does not offer its GPUs."""
    seen: set[str] = set()
    for cause, line in lines_of(lines):
        if table_of(cause) in OF_KERNEL and (why := worded(cause, line).why) not in seen:
            seen.add(why)
            yield Reported(cause=cause.id, line=line[:300])


def _records(file: int) -> Iterator[bytes]:
    """What can be read without waiting."""
    total = 0
    while total < MOST_BYTES:
        try:
            record = os.read(file, 8192)
        except BrokenPipeError:
            continue  # the kernel overwrote a record meanwhile
        except OSError:
            return
        if not record:
            return
        total += len(record)
        yield record

"""The kernel log: read from /dev/kmsg without waiting, where this user may read it. No command is
started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from doctor.facts.kernel_lines import events
from doctor.facts.machine import KernelEvent

MOST_BYTES = 16 * 2**20
"""More than any kernel keeps."""


def read_kernel_log(root: Path = Path("/")) -> tuple[KernelEvent, ...] | None:
    """The errors of GPUs, oldest first; None if the log cannot be read."""
    try:
        file = os.open(root / "dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        text = b"".join(_records(file)).decode("utf-8", "replace")
    finally:
        os.close(file)
    return events(text.splitlines())


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

"""The processors that this process may use."""

from __future__ import annotations

import os


def usable_processors() -> int:
    """Their number, as far as the system restricts it for this process."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

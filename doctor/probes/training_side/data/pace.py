"""How fast a loader delivers, and whether that was measured without others in the way."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List, Optional, Tuple

from ..foreign import Foreign, observing
from .keeper import descendants
from .targets import Source

SECONDS = 6.0
MOST = 96
"""Batches."""
WARM = 2
"""Batches of each worker before the measured ones: workers start, and fill their queue."""
LEAST = 8


def pace(source: Source) -> Optional[Dict[str, Any]]:
    """The record Pace of a loader that is asked for nothing but batches; None of anything else."""
    if source.kind != "loader" or isinstance(source.items, list):
        return None
    count = observing.attribute(source.items, "num_workers", 0)
    workers = count if isinstance(count, int) else 0
    try:
        return _measured(source.items, workers)
    except Exception as error:
        return _unknown("reading the loader again raised %s" % type(error).__name__)


def _measured(loader: Foreign, workers: int) -> Dict[str, Any]:
    warm, group = WARM * max(1, workers), max(1, workers)
    deadline = time.monotonic() + SECONDS
    times: List[float] = []
    before = waited_for_cores()
    for number, _ in enumerate(loader, 1):
        times.append(time.perf_counter())
        if number == warm:
            before = waited_for_cores()
        if number >= MOST or time.monotonic() > deadline:
            break
    delayed = _share(before, waited_for_cores())
    half = (len(times) - warm) // (2 * group) * group
    """Workers deliver in bursts, so that a half is a whole number of them."""
    if 2 * half < LEAST:
        return _unknown("only %d batches came in %.0f s" % (len(times), SECONDS))
    first, middle, last = (times[warm - 1 + n * half] for n in range(3))
    return {
        "type": "Pace",
        "batches": 2 * half,
        "seconds": (last - first) / (2 * half),
        "halves": [(middle - first) / half, (last - middle) / half],
        "delayed": delayed,
        "workers": workers,
    }


def waited_for_cores() -> Dict[int, Tuple[int, int]]:
    """Nanoseconds on a core, and in wait of one, of this process and those below it."""
    found: Dict[int, Tuple[int, int]] = {}
    for pid in (os.getpid(), *observing.attempt(lambda: descendants(os.getpid()), [])):
        try:
            with open("/proc/%d/schedstat" % pid) as file:
                ran, waited = file.read().split()[:2]
            found[pid] = int(ran), int(waited)
        except (OSError, ValueError):
            continue
    return found


def _share(
    before: Dict[int, Tuple[int, int]], after: Dict[int, Tuple[int, int]]
) -> Optional[float]:
    """Of the time in which they could run; None where the kernel does not count it."""
    both = [(before[pid], each) for pid, each in after.items() if pid in before]
    ran, waited = (sum(new[k] - old[k] for old, new in both) for k in (0, 1))
    return waited / (ran + waited) if ran + waited > 0 else None


def _unknown(reason: str) -> Dict[str, Any]:
    return {"type": "Unknown", "reason": reason}

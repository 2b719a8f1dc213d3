"""More time for a child process that computes, rather than waits, when its time is over."""

from __future__ import annotations

import os
import time

from doctor._util.records import Ended

BUSY = 0.2
"""CPU seconds per second, of a process and its descendants that compute rather than wait. A machine
that runs several programs at once leaves each less than a core."""
BUSY_INTERVAL = 2.0
"""Seconds over which that is measured, before a deadline."""


class ExtraTime:
    """More time for a child that computes when its time is over."""

    def __init__(self, session: int, seconds: float, extra_seconds: float) -> None:
        self._session, self._seconds = session, seconds
        self.deadline = time.monotonic() + seconds
        self._last = self.deadline + extra_seconds
        self._extra_seconds = extra_seconds
        self._mark: tuple[float, float | None] | None = None
        self.busy: bool | None = None
        """Whether it computed after its latest deadline, None if that was not measured."""

    def extend(self, ended: Ended, deadline: float) -> bool:
        """Whether a child that missed its deadline has more time, until `self.deadline`.

        It has none if it waits, or had all of it. Its CPU time is first measured for
        `BUSY_INTERVAL`.
        """
        if ended.how != "timeout" or not self._extra_seconds:
            return False
        now, used = time.monotonic(), _cpu_seconds(self._session)
        if self._mark is None:
            self._mark, self.deadline = (now, used), now + BUSY_INTERVAL
            return True
        (since, before), self._mark = self._mark, None
        if used is not None and before is not None:
            self.busy = used - before >= BUSY * (now - since)
        self.deadline = min(deadline + self._seconds, self._last)
        return bool(self.busy) and now < self._last


SLEEP_INTERVAL = 0.5
"""Seconds between two looks at the state of a process that did not answer."""


def is_uninterruptible(session: int) -> bool | None:
    """Whether a thread of the session waits in the kernel (state D) and none uses the processor.

    Looks twice, `SLEEP_INTERVAL` apart. None without /proc.
    """
    used, before = _cpu_seconds(session), _waiting(session)
    if used is None:
        return None
    time.sleep(SLEEP_INTERVAL)
    return bool(before & _waiting(session)) and _cpu_seconds(session) == used


def _waiting(session: int) -> set[str]:
    """The threads of a session in state D, by their paths in /proc."""
    found = set()
    for name in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208
        try:
            if os.getsid(int(name)) != session:
                continue
            for task in os.listdir(f"/proc/{name}/task"):  # noqa: PTH208
                path = f"/proc/{name}/task/{task}/stat"
                with open(path, "rb") as file:  # noqa: PTH123
                    if file.read().rpartition(b")")[2].split()[:1] == [b"D"]:
                        found.add(path)
        except OSError:
            continue
    return found


def _cpu_seconds(session: int) -> float | None:
    """CPU time of the processes of a session; None without /proc."""
    if not os.path.isdir("/proc/self"):  # noqa: PTH112 - never raises
        return None
    ticks = 0
    for name in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if len(fields) > 14 and int(fields[3]) == session:
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")

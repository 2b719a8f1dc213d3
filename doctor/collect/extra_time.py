"""More time for a child process that computes, rather than waits, when its time is over."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import NamedTuple

from doctor._util.records import Ended

BUSY = 0.5
"""Of an interval in which threads compute, or wait for a processor: a process that waits for
anything else has none of both, however many programs share the machine."""
BUSY_SHARE = 0.2
"""CPU seconds per second of a whole session where the kernel does not tell that, of the processor
that the machine leaves it."""
BUSY_INTERVAL = 2.0
"""Seconds over which that is measured, before a deadline."""


class ExtraTime:
    """More time for a child that computes when its time is over."""

    def __init__(self, session: int, seconds: float, extra_seconds: float) -> None:
        self._session, self._seconds = session, seconds
        self.deadline = time.monotonic() + seconds
        self._last = self.deadline + extra_seconds
        self._extra_seconds = extra_seconds
        self._mark: tuple[float, Load] | None = None
        self.busy: bool | None = None
        """Whether it computed after its latest deadline, None if that was not measured."""

    def extend(self, ended: Ended, deadline: float) -> bool:
        """Whether a child that missed its deadline has more time, until `self.deadline`.

        It has none if it waits, or had all of it. What it does is first measured for
        `BUSY_INTERVAL`.
        """
        if ended.how != "timeout" or not self._extra_seconds:
            return False
        now, load = time.monotonic(), load_of(self._session)
        if self._mark is None:
            self._mark, self.deadline = (now, load), now + BUSY_INTERVAL
            return True
        (since, before), self._mark = self._mark, None
        self.busy = computes(before, load, now - since)
        self.deadline = min(deadline + self._seconds, self._last)
        return bool(self.busy) and now < self._last


class Load(NamedTuple):
    """What the processes of a session did so far; None and {} where the kernel does not tell."""

    cpu: float | None
    """Seconds of all of them."""
    runnable: dict[str, float]
    """Thread -> seconds in which it ran or waited for a processor."""


def load_of(session: int) -> Load:
    """What the processes of a session did so far."""
    return Load(_cpu_seconds(session), dict(_runnable(session)))


def computes(before: Load, after: Load, seconds: float) -> bool | None:
    """Whether a thread computed between two loads, rather than waited; None if that is unknown."""
    if after.runnable:
        each = (now - before.runnable.get(path, 0.0) for path, now in after.runnable.items())
        return sum(each) >= BUSY * seconds  # threads of one kernel wait for each other
    if before.cpu is None or after.cpu is None:
        return None
    return after.cpu - before.cpu >= BUSY_SHARE * seconds * _share()


def _share() -> float:
    """The part of a processor that the machine leaves each runnable thread now."""
    try:
        with open("/proc/loadavg", encoding="ascii") as file:  # noqa: PTH123
            running = int(file.read().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return 1.0
    return min(1.0, (os.cpu_count() or 1) / max(running, 1))


def _runnable(session: int) -> Iterator[tuple[str, float]]:
    """The threads of a session, and the seconds in which each ran or waited for a processor."""
    for name in filter(str.isdecimal, _entries("/proc")):
        try:
            if os.getsid(int(name)) != session:
                continue
        except OSError:
            continue
        for task in _entries(f"/proc/{name}/task"):
            path = f"/proc/{name}/task/{task}/schedstat"
            try:
                with open(path, encoding="ascii") as file:  # noqa: PTH123
                    ran, waited = map(int, file.read().split()[:2])
            except (OSError, ValueError):
                continue
            yield path, (ran + waited) / 1e9


def _entries(path: str) -> list[str]:
    try:
        return os.listdir(path)  # noqa: PTH208
    except OSError:
        return []


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

"""The machine's memory while the command runs: what its processes hold, and /dev/shm."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path

from doctor.collect.cgroups import read_limits
from doctor.collect.host import read_memory
from doctor.collect.rehearsal.processes import descendants
from doctor.facts.rehearsal_runs import HostMemory

EVERY_SECONDS = 1.0
"""A look reads a line of each process of the machine."""
SHM = "/dev/shm"  # noqa: S108 - where loaders and NCCL share memory
PAGE = os.sysconf("SC_PAGE_SIZE")


class HostMemoryWatch:
    """Looks once a second while the command runs. Bytes that processes have mapped from files or
    share are not counted: the kernel can drop the first, and the second are those of /dev/shm."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._free = free_memory(root)
        self._shm = _shm()
        self._looked = 0.0
        self._loading = self._running = self._shared = 0

    def look(self, pid: int, stepping: bool) -> None:
        """`pid` is an ancestor of all its processes; `stepping`: a first step was recorded."""
        now = time.monotonic()
        if now - self._looked < EVERY_SECONDS:
            return
        self._looked = now
        held = own_bytes(each for each, _ in descendants(pid))
        if stepping:
            self._running = max(self._running, held)
        else:
            self._loading = max(self._loading, held)
        if self._shm and (shm := _shm()):
            self._shared = max(self._shared, self._shm - shm)

    def facts(self) -> HostMemory | None:
        """None: how much was free is not known."""
        if self._free is None:
            return None
        return HostMemory(
            loading=self._loading, running=self._running, free=self._free,
            shm=self._shared, shm_free=self._shm,
        )  # fmt: skip


def free_memory(root: Path) -> int | None:
    """Bytes that this process and its children may still use; None: not known."""
    available = read_memory(root / "proc/meminfo").get("memory_available")
    limits = read_limits(root)
    limit = limits.get("cgroup_memory_limit")
    below = None if limit is None else limit - (limits["cgroup_memory_used"] or 0)
    return min((each for each in (available, below) if each is not None), default=None)


def own_bytes(pids: Iterable[int]) -> int:
    """Resident bytes of these processes without those of files and shared memory."""
    pages = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError):
            _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text("ascii").split()
            pages += max(0, int(resident) - int(shared))
    return pages * PAGE


def _shm() -> int | None:
    """Free bytes of /dev/shm; None where there is none."""
    try:
        stats = os.statvfs(SHM)
    except OSError:
        return None
    return stats.f_bavail * stats.f_frsize

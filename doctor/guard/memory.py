"""Memory that grows with every step: of this process, and of the GPU, as torch counts it."""

from __future__ import annotations

import math
import os
from types import ModuleType
from typing import Callable, Iterator, List, Optional

from . import codes
from . import thresholds as limit
from .records import WARN, Alarm

GIB = 2**30


class Growth:
    """One series of bytes in use: numbers in, alarms out. `free` reads the bytes left."""

    def __init__(self, name: str, cause: str, free: Callable[[], Optional[float]]) -> None:
        self.name = name
        self.cause = cause
        self.windows = 0
        self._free = free
        self._lowest = math.inf
        self._count = 0
        self._lows: List[float] = []

    def add(self, step: int, used: float) -> Iterator[Alarm]:
        """The bytes in use after a step; called every `MEMORY_EVERY` steps."""
        self._lowest = min(self._lowest, used)
        self._count += 1
        if self._count < limit.MEMORY_WINDOW // limit.MEMORY_EVERY:
            return
        self._lows = [*self._lows, self._lowest][-limit.MEMORY_WINDOWS - 1 :]
        self._lowest, self._count = math.inf, 0
        self.windows += 1
        yield from self._judge(step)

    def _judge(self, step: int) -> Iterator[Alarm]:
        rises = [after - before for before, after in zip(self._lows, self._lows[1:])]
        if len(rises) < limit.MEMORY_WINDOWS or min(rises) <= 0:
            return
        mean = sum(rises) / len(rises)
        if min(rises) < mean / 2:
            return  # a cache that fills up, not a leak
        slope = mean / limit.MEMORY_WINDOW
        free = self._free()
        if free is not None and slope * limit.MEMORY_HORIZON > free:
            text = (
                f"{self.name} grows by {slope / 2**20:.3g} MiB at each step; the {free / GIB:.3g} "
                f"GiB left last for about {max(0, int(free / slope)):,} steps"
            )
            yield Alarm(codes.MEMORY_HOLDS, WARN, step, text, self.cause)


class Memory:
    """The memory of this process and of its GPU."""

    def __init__(self, torch: ModuleType) -> None:
        self.torch = torch
        self.host = Growth("the memory of this process", "host", free_host_bytes)
        self.device = Growth("the memory of the GPU", "gpu", self._free_device_bytes)

    @property
    def windows(self) -> int:
        """Windows that were compared."""
        return max(self.host.windows, self.device.windows)

    def step(self, step: int) -> List[Alarm]:
        """A step ended."""
        if step <= limit.MEMORY_FROM or step % limit.MEMORY_EVERY:
            return []
        alarms: List[Alarm] = []
        used = private_bytes()
        if used is not None:
            alarms += self.host.add(step, used)
        if self.torch.cuda.is_initialized():
            alarms += self.device.add(step, self.torch.cuda.memory_allocated())
        return alarms

    def _free_device_bytes(self) -> float:
        cuda = self.torch.cuda
        total = cuda.get_device_properties(cuda.current_device()).total_memory
        return float(total - cuda.memory_allocated())


def private_bytes() -> Optional[float]:
    """Resident memory of this process without mapped files; None outside Linux."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            fields = file.read().split()
        return float((int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE"))
    except (OSError, ValueError, IndexError):
        return None


def free_host_bytes() -> Optional[float]:
    """Memory that is left to this process: of the machine, and of its container."""
    available = _number_after("/proc/meminfo", "MemAvailable:")
    free = None if available is None else available * 1024
    limits = _read("/sys/fs/cgroup/memory.max"), _read("/sys/fs/cgroup/memory.current")
    if limits[0].isdigit() and limits[1].isdigit():
        cached = _number_after("/sys/fs/cgroup/memory.stat", "inactive_file") or 0.0
        left = int(limits[0]) - int(limits[1]) + cached
        free = left if free is None else min(free, left)
    return free


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read(65536).strip()
    except (OSError, ValueError):
        return ""


def _number_after(path: str, name: str) -> Optional[float]:
    words = _read(path).split()
    if name in words[:-1]:
        word = words[words.index(name) + 1]
        return float(word) if word.isdigit() else None
    return None

"""Samples who uses GPUs while a training runs: doctor_side.gpu_use SECONDS MARK UUID...

It ends at a request to stop. MARK is a string in the environment of the training's processes, which
their children inherit. NVML lists the pids of the host: where none of them is a process of the
training, as in a container with pids of its own, nothing is recorded about other processes. A GPU
in MIG mode is not sampled.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Dict, Iterator, List, Optional

from .. import wire
from .watch import started

try:
    import pynvml
except ImportError as error:
    wire.send(error=wire.describe(error))
    sys.exit()

WINDOWS = 16
"""The most windows of memory; then two neighbours become one of twice the length."""
FIRST_WINDOW = 12
"""Samples in a window, before windows are joined."""
OTHERS = 64
"""The most other processes of one GPU."""


def text(path: str) -> str:
    """A file of /proc, "" where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(1 << 20).decode("utf-8", "replace")
    except OSError:
        return ""


def parent(pid: int) -> int:
    for line in text("/proc/%d/status" % pid).splitlines():
        if line.startswith("PPid:"):
            return int(line.split()[1])
    return 0


def belongs(pid: int, mark: str) -> bool:
    """Whether the process, or one that it descends from, has the mark in its environment."""
    for _ in range(64):
        if pid <= 1:
            return False
        if mark in text("/proc/%d/environ" % pid):
            return True
        pid = parent(pid)
    return False


class Use:
    """One GPU and the fields of `doctor.facts.load.Use`."""

    def __init__(self, uuid: str, mark: str, every: float) -> None:
        self._uuid, self._mark, self._every = uuid, mark, every
        self._unread: Dict[str, str] = {}
        self._others: Dict[int, Dict[str, Any]] = {}
        self._with_training = self._samples = 0
        self._total: Optional[int] = None
        self._windows: List[int] = []
        self._length, self._in_window = FIRST_WINDOW, 0
        self._handle: object = None
        with self._attempt("memory", "processes"):
            handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            with contextlib.suppress(pynvml.NVMLError):
                if pynvml.nvmlDeviceGetMigMode(handle)[0]:
                    self._unread.update(dict.fromkeys(("memory", "processes"), "MIG mode"))
                    return
            self._handle = handle

    @contextlib.contextmanager
    def _attempt(self, *fields: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._unread.update(dict.fromkeys(fields, wire.describe(error)))

    def sample(self) -> None:
        """Record the memory in use and the processes at this moment."""
        if self._handle is None:
            return
        self._samples += 1
        with self._attempt("memory"):
            memory = pynvml.nvmlDeviceGetMemoryInfo(self._handle)
            self._total = int(memory.total)
            self._record_memory(int(memory.used))
        with self._attempt("processes"):
            self._record_processes(pynvml.nvmlDeviceGetComputeRunningProcesses(self._handle))

    def _record_memory(self, used: int) -> None:
        """The lowest use in the current window; only complete windows are reported."""
        if self._in_window == self._length:
            self._in_window = 0
            if len(self._windows) == WINDOWS:
                pairs = zip(self._windows[::2], self._windows[1::2])
                self._windows = [min(pair) for pair in pairs]
                self._length *= 2
        if self._in_window == 0:
            self._windows.append(used)
        self._windows[-1] = min(self._windows[-1], used)
        self._in_window += 1

    def _record_processes(self, processes: List[Any]) -> None:
        """Other processes, in samples that list a process of the training."""
        others = [each for each in processes if not belongs(each.pid, self._mark)]
        if len(others) == len(processes):
            return
        self._with_training += 1
        for each in others:
            name = text("/proc/%d/comm" % each.pid).strip()
            if not name or (each.pid not in self._others and len(self._others) == OTHERS):
                continue
            other = self._others.setdefault(each.pid, {"pid": each.pid, "samples": 0})
            other["name"] = name
            other["samples"] += 1
            if each.usedGpuMemory is not None:
                other["memory"] = max(other.get("memory", 0), int(each.usedGpuMemory))

    def record(self) -> Dict[str, Any]:
        """As a record of `doctor.facts.load.Watched`."""
        complete = self._windows[: len(self._windows) - (self._in_window < self._length)]
        use = {
            "samples": self._samples,
            "with_training": self._with_training,
            "others": list(self._others.values()),
            "memory": complete,
            "window_seconds": self._length * self._every,
            "memory_total": self._total,
            "unread": self._unread,
        }
        return {"uuid": self._uuid, "samples": 0, "mask": 0, "use": use}


def main(seconds: str, mark: str, *uuids: str) -> None:
    every = float(seconds)
    if not started():
        return
    gpus = [Use(uuid, mark, every) for uuid in uuids]
    wire.send(answer={"ready": True})
    while not wire.received(every):
        for gpu in gpus:
            gpu.sample()
    wire.send(answer={"watched": [gpu.record() for gpu in gpus]})

"""No process of the user's loader outlives the examination, whatever ends it.

The probe forks a keeper, and the keeper the process that runs the user's code. The keeper adopts
every process whose parent ended (a subreaper), and ends them all when that process ends or when the
probe is gone: even SIGKILL of the doctor closes the pipe that the keeper watches.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from typing import Dict, List, Set

SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER."""
SECONDS = 5.0
"""In which all processes end; one that is blocked in the kernel is abandoned."""
SHM = "/dev/shm"  # noqa: S108 - where torch shares tensors between processes


def keep() -> None:
    """Return in a process that is kept; the calling process ends with the same status."""
    if not sys.platform.startswith("linux"):
        return
    reading, writing = os.pipe()
    keeper = os.fork()
    if keeper:
        os.close(reading)
        _end_as(os.waitpid(keeper, 0)[1])
    os.close(writing)
    os.setsid()
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    children, child = os.pipe()
    os.set_blocking(child, False)
    signal.set_wakeup_fd(child)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)  # so that the pipe gets a byte
    worker = os.fork()
    if not worker:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for descriptor in (reading, children, child):
            os.close(descriptor)
        return
    _end_as(_watch(worker, reading, children))


def _watch(worker: int, probe: int, children: int) -> int:
    """The status of the worker, once nothing of it is left; `probe` ends when the probe is gone,
    and `children` has a byte for every process that ended."""
    status = None
    while status is None:
        ready = select.select([probe, children], [], [])[0]
        if probe in ready:
            break
        os.read(children, 64)
        pid, found = os.waitpid(worker, os.WNOHANG)
        status = found if pid else None
    _end_all(worker)
    return 9 if status is None else status


def _end_all(worker: int) -> None:
    """Kill and reap descendants until none is left, and remove their shared memory."""
    deadline = time.monotonic() + SECONDS
    seen: Set[int] = {worker}
    while time.monotonic() < deadline:
        running = descendants(os.getpid())
        seen.update(running)
        for pid in running:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not running:
            break
        time.sleep(0.02)
    _remove_shared(seen)


def descendants(ancestor: int) -> List[int]:
    """Every process below this one."""
    children: Dict[int, List[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                with open("/proc/%s/stat" % name, "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
                children.setdefault(parent, []).append(int(name))
    found: List[int] = []
    pending = [ancestor]
    while pending:
        below = children.get(pending.pop(), [])
        found += below
        pending += below
    return found


def _remove_shared(pids: Set[int]) -> None:
    """Remove what torch names by the process that made it: /dev/shm/torch_PID_..."""
    with contextlib.suppress(OSError):
        for name in os.listdir(SHM):
            parts = name.split("_")
            named = parts[0] == "torch" and len(parts) > 2 and parts[1].isdigit()
            if named and int(parts[1]) in pids:
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(SHM, name))


def _end_as(status: int) -> None:
    """End this process as another one ended."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        signal.signal(number, signal.SIG_DFL) if number not in (9, 19) else None
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1)

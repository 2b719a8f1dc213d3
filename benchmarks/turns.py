"""Measuring side by side: turn by turn in one process, and memory in a fresh one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def best(turns: int, **calls: Callable[[], object]) -> dict[str, float]:
    """Milliseconds of each call, the best of several turns taken one after the other."""
    found = dict.fromkeys(calls, float("inf"))
    for _ in range(turns):
        for name, call in calls.items():
            began = time.perf_counter()
            call()
            found[name] = min(found[name], 1e3 * (time.perf_counter() - began))
    return found


def memory(program: str, *arguments: str) -> float:
    """By how many MB a program's resident memory goes over that of a bare interpreter at its most.

    What runs before `mark()` in the program does not count.
    """
    text = (
        "import sys\n"
        "def most():\n"
        "    lines = open('/proc/self/status').read().splitlines()\n"
        "    return next(int(line.split()[1]) for line in lines if line.startswith('VmHWM'))\n"
        "start = most()\n"
        "def mark():\n    global start\n    start = most()\n"
        f"{program}\n"
        "print((most() - start) * 1024 / 1e6)"
    )
    command = [sys.executable, "-c", text, *arguments]
    path = os.pathsep.join([str(ROOT), str(ROOT / "benchmarks")])
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": path}
    )
    return float(done.stdout)


def busy() -> str:
    """How much else runs, to be printed beside the numbers."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"


def against(goal: float, got: float, least: bool = False) -> str:
    """The goal, and whether it was met."""
    met = got >= goal if least else got <= goal
    return f"goal {'>=' if least else '<='} {goal:g}: {'met' if met else 'MISSED'}"

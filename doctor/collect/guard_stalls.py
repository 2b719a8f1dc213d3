"""Ranks of a guarded training that are without a step for long, and where they are."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import statistics
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from doctor.collect.child_output import FRAME
from doctor.facts.guard import GuardStall

LEAST_SECONDS = 300.0
"""An evaluation or a checkpoint may take some minutes."""
UNKNOWN_SECONDS = 1800.0
"""Before there is a usual time: compilation, the first epoch's caches."""
TIMES = 10
"""How many times the usual: our own number."""
ENOUGH = 5
SIGNAL = int(getattr(signal, "SIGRTMIN", 0)) + 11
"""That of doctor.guard.stacks; nobody answers it where the system has no real-time signals."""
ANSWER_SECONDS = 1.0
TAIL = 4096
STEP = re.compile(rb'"s":(\d{1,12})')
END = b'"kind": "end"'
"""The last record: a process may take long to exit."""
LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3", "/doctor/guard/", "<frozen ")


@dataclass
class _Rank:
    """The records of one process as they grow."""

    size: int
    grown: float
    gaps: deque[float] = field(default_factory=lambda: deque(maxlen=50))
    longest: float = 0.0
    stalled: bool = False

    @property
    def usual(self) -> float:
        """Seconds between two growths; 0.0 until there were enough."""
        return statistics.median(self.gaps) if len(self.gaps) >= ENOUGH else 0.0

    def limit(self, after: float | None) -> float:
        """Seconds without growth that are a stall."""
        if after is not None:
            return after
        if not self.usual:
            return UNKNOWN_SECONDS
        return max(LEAST_SECONDS, TIMES * self.usual, 2 * self.longest)

    def grow(self, size: int, now: float) -> None:
        if self.size:
            self.gaps.append(now - self.grown)
            self.longest = max(self.longest, now - self.grown)
        self.size, self.grown = size, now


class Stalls:
    """Follows the files of records. `after`: seconds that are a stall; None: by what is usual."""

    def __init__(
        self, out: Path, after: float | None, lives: Callable[[int], bool] = lambda pid: True
    ) -> None:
        """`lives`: whether a process is one of this training."""
        self._out, self._after, self._lives = out, after, lives
        self._ranks: dict[str, _Rank] = {}
        self.found: dict[str, GuardStall] = {}
        """File -> its last stall."""

    def look(self, files: dict[str, tuple[int, int]], now: float) -> list[str]:
        """The files that have stalled since the last look. `files`: name -> rank and pid.

        A process that is gone does not stall: a launcher may have started its rank again.
        """
        new = []
        for name, (rank, pid) in files.items():
            with contextlib.suppress(OSError):
                size = (self._out / name).stat().st_size
                if self._follow(name, size, now) and self._begins(name, pid):
                    self.found[name] = self._stall(name, rank, pid, now)
                    new.append(name)
        return new

    def _follow(self, name: str, size: int, now: float) -> bool:
        """Whether it may have stalled just now."""
        seen = self._ranks.setdefault(name, _Rank(size, now))
        if size == seen.size:
            late = not seen.stalled and now - seen.grown >= seen.limit(self._after)
            return late and END not in _tail(self._out / name)
        if seen.stalled:
            seen.stalled = False
            self._change(name, resumed=True, seconds=now - seen.grown)
        seen.grow(size, now)
        return False

    def _begins(self, name: str, pid: int) -> bool:
        """Whether the process still lives, so that its silence is a stall."""
        self._ranks[name].stalled = self._lives(pid)
        return self._ranks[name].stalled

    @property
    def watched(self) -> int:
        """Processes whose records were followed."""
        return len(self._ranks)

    def end(self, now: float) -> None:
        """The command has ended: how long those that still stall did."""
        for name, seen in self._ranks.items():
            if seen.stalled:
                self._change(name, resumed=False, seconds=now - seen.grown)

    def _change(self, name: str, *, resumed: bool, seconds: float) -> None:
        stall = self.found[name]
        self.found[name] = GuardStall(
            rank=stall.rank,
            step=stall.step,
            seconds=round(seconds, 1),
            usual=stall.usual,
            resumed=resumed,
            where=stall.where,
        )

    def _stall(self, name: str, rank: int, pid: int, now: float) -> GuardStall:
        seen = self._ranks[name]
        return GuardStall(
            rank=rank,
            step=_last_step(self._out / name),
            seconds=round(now - seen.grown, 1),
            usual=round(seen.usual, 3),
            where=where_is(pid, stacks_file(self._out, rank, pid)),
        )


def stacks_file(out: Path, rank: int, pid: int) -> Path:
    """Where a process writes its stacks when it is asked."""
    return out / f"stacks{rank}-{pid}.txt"


def _tail(path: Path) -> bytes:
    with contextlib.suppress(OSError), path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL))
        return file.read()
    return b""


def _last_step(path: Path) -> int:
    numbers = STEP.findall(_tail(path))
    return int(numbers[-1]) if numbers else 0


def where_is(pid: int, file: Path) -> str:
    """The innermost line of the program in a process that answers; "" for no answer."""
    if not catches(pid, SIGNAL):
        return ""
    with contextlib.suppress(OSError):
        before = file.stat().st_size
        os.kill(pid, SIGNAL)
        deadline = time.monotonic() + ANSWER_SECONDS
        while file.stat().st_size == before and time.monotonic() < deadline:
            time.sleep(0.02)
        with file.open("r", encoding="utf-8", errors="replace") as text:
            text.seek(before)
            return _place(text.read(2**20))
    return ""


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler of the signal: without one the signal would end it."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        status = Path(f"/proc/{pid}/status").read_text()
        line = next(each for each in status.splitlines() if each.startswith("SigCgt:"))
        return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def _place(stacks: str) -> str:
    """The main thread's innermost frame, and the innermost one of the user's own code."""
    threads = re.split(r"(?m)^(?=(?:Current thread|Thread) )", stacks)
    current = [thread for thread in threads if thread.startswith("Current thread")]
    frames = FRAME.findall((current or threads)[-1])
    if not frames:
        return ""
    own = next((f for f in frames if not any(part in f[0] for part in LIBRARIES)), None)
    inner = _frame(frames[0])
    return inner if own is None or own == frames[0] else f"{_frame(own)}, innermost {inner}"


def _frame(frame: tuple[str, str, str]) -> str:
    path, line, function = frame
    return f"{function} ({Path(path).name}:{line})"

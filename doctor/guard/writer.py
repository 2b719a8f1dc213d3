"""The records of one process: JSON lines in a file of bounded size."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import time
from typing import TextIO

from .foreign import Foreign
from .records import Step

MOST_BYTES = 16 * 2**20
"""Of one file; steps beyond it are not written, alarms are."""
FLUSH_SECONDS = 1.0
FULL_UNTIL = 1000
"""Steps that are all written; then one in 10 until ten times as many, one in 100, and so on."""
OPEN_RECORDS = 4
"""Optimizers whose steps are written."""
STOP = "stop"
"""The file that asks `doctor guard` to end the job."""


def plain(value: Foreign) -> Foreign:
    """The value for JSON: non-finite floats as strings, others with six digits."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else str(value)
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return value


class Writer:
    """Writes DIRECTORY/rank<R>-<pid>.jsonl; the first error ends the writing, not the training.

    `rank` and `world`: which process of the job writes, and of how many.
    """

    def __init__(self, directory: str, shared: bool = False) -> None:
        self.directory = directory
        self.rank, self.world = 0, 1
        self._shared = shared
        self._file: TextIO | None = None
        self._bytes = 0
        self._flushed = 0.0
        self._failed = False

    def open(self, rank: int, world: int) -> None:
        """Create the directory and the file."""
        self.rank, self.world = rank, world
        path = self.path("rank", "jsonl")
        try:
            os.makedirs(self.directory, 0o777 if self._shared else 0o700, exist_ok=True)
            self._file = open(path, "w", encoding="utf-8", opener=self.opened)  # noqa: SIM115
        except OSError as error:
            self._fail(error)

    def path(self, kind: str, suffix: str) -> str:
        """A file of this process in the directory of the records."""
        return os.path.join(self.directory, f"{kind}{self.rank}-{os.getpid()}.{suffix}")

    def opened(self, path: str, flags: int) -> int:
        """An opener for open(): only the owner can read the file, unless it is shared."""
        mode = 0o666 if self._shared else 0o600
        return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), mode)

    def write(self, kind: str, flush: bool = True, **fields: Foreign) -> None:
        """One line."""
        if self._file is None:
            return
        values = {name: plain(value) for name, value in fields.items()}
        self._line(json.dumps({"kind": kind, **values}), flush)

    def takes(self, optimizer: int, step: int) -> bool:
        """Whether this step of an optimizer is among those that are written."""
        return optimizer < OPEN_RECORDS and step % _every(step) == 0

    def step(self, step: Step, scale: float | None, seconds: float) -> None:
        """One line for a step."""
        if self._file is None or self._bytes > MOST_BYTES:
            return
        parts = [f'{{"kind":"step","o":{step.optimizer},"s":{step.step},"t":{seconds:.3f}']
        values = (
            ("loss", step.loss),
            ("norm", None if step.apart else step.norm),
            ("rate", step.rate),
            ("scale", scale),
        )
        for name, value in values:
            if value is not None:
                finite = math.isfinite(value)
                parts.append(f'"{name}":{value:.6g}' if finite else f'"{name}":"{value}"')
        if step.skipped:
            parts.append('"skipped":1')
        self._line(",".join(parts) + "}", flush=False)

    def _line(self, text: str, flush: bool) -> None:
        assert self._file is not None
        try:
            self._bytes += self._file.write(text + "\n")
            now = time.monotonic()
            if flush or now - self._flushed > FLUSH_SECONDS:
                self._file.flush()
                self._flushed = now
        except (OSError, ValueError) as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._discard()
        if not self._failed:
            self._failed = True
            reason = error.strerror if isinstance(error, OSError) else error
            say(
                f"records cannot be written to {self.directory}: {reason}; alarms still appear here"
            )

    def _discard(self) -> None:
        """Close the file without its buffer, which a full disk would not take."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(Exception):
                file.close()

    def first(self, name: str) -> bool:
        """Whether this is the first process of the run with this name: one line per alarm."""
        try:
            os.close(self.opened(os.path.join(self.directory, name), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        except OSError:
            return True
        return True

    def close(self) -> None:
        """Flush and close."""
        if self._file is not None:
            with contextlib.suppress(Exception):
                self._file.close()
            self._file = None


def _every(step: int) -> int:
    """Which steps are written: all of 1,000, then one in 10 of 10,000, and so on."""
    every = 1
    while step >= FULL_UNTIL * every:
        every *= 10
    return every


def say(text: str) -> None:
    """One line on stderr, whatever state stderr is in."""
    with contextlib.suppress(Exception):
        sys.stderr.write(f"doctor guard: {text}\n")
        sys.stderr.flush()

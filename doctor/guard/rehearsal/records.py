"""The records of one process of the rehearsal: JSON lines, flushed at once."""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from typing import Optional, TextIO

from ..foreign import Foreign

MOST_BYTES = 256 * 2**20


class Records:
    """Writes DIRECTORY/observed<R>-<pid>.jsonl; opened at the first record."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._file: Optional[TextIO] = None
        self._bytes = 0
        self._pid = os.getpid()

    def open(self, rank: int, world: int) -> None:
        """Create the file. Raises OSError."""
        path = os.path.join(self.directory, f"observed{rank}-{os.getpid()}.jsonl")
        self._file = open(path, "w", encoding="utf-8")  # noqa: SIM115
        self._pid = os.getpid()
        self.write("process", rank=rank, world=world, pid=os.getpid())

    @property
    def is_open(self) -> bool:
        """Whether this process, and not its parent, opened it."""
        return self._file is not None and self._pid == os.getpid()

    def write(self, kind: str, **fields: Foreign) -> None:
        """One line; a full disk ends the writing, not the training."""
        if not self.is_open or self._bytes > MOST_BYTES:
            return
        assert self._file is not None
        record = {"kind": kind, "moment": time.time(), **fields}
        try:
            self._bytes += self._file.write(json.dumps(_finite(record)) + "\n")
            self._file.flush()
        except (OSError, ValueError):
            self.close()

    def close(self) -> None:
        """No more records."""
        if self.is_open:
            assert self._file is not None
            with contextlib.suppress(Exception):
                self._file.close()
        self._file = None


def _finite(value: Foreign) -> Foreign:
    """The value with non-finite floats as text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    return value

"""Lets the parent ask this process where it is, by a signal that nothing else uses."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
from typing import Callable, TextIO

NUMBER = int(getattr(signal, "SIGRTMIN", 0)) + 11
"""A real-time signal; the handler is faulthandler's, in C, which interrupts no call."""


class Stacks:
    """The file that gets the stacks of all threads, while this process is watched."""

    def __init__(self) -> None:
        self._file: TextIO | None = None

    def offer(self, path: str, opener: Callable[[str, int], int]) -> None:
        """Answer from now on, unless the program has a use for the signal."""
        with contextlib.suppress(OSError, ValueError, AttributeError, RuntimeError):
            if signal.getsignal(NUMBER) is signal.SIG_DFL:
                self._file = open(path, "w", encoding="utf-8", opener=opener)  # noqa: SIM115
                faulthandler.register(NUMBER, self._file, all_threads=True)

    def withdraw(self) -> None:
        """Answer no more; without an answer the file is removed."""
        file, self._file = self._file, None
        if file is None:
            return
        with contextlib.suppress(OSError, ValueError):
            faulthandler.unregister(NUMBER)
            empty = not os.fstat(file.fileno()).st_size
            file.close()
            if empty:
                os.unlink(file.name)

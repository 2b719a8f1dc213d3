"""When a run was started, with which command, and where its time went."""

from __future__ import annotations

import contextlib
import datetime
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar

from doctor._util.secrets import hide_in_arguments
from doctor._util.units import printable
from doctor.facts.machine import Examination


class Record:
    """The start of a run, and its activities as they are reported."""

    def __init__(self, started: float | None = None) -> None:
        """`started`: seconds since the epoch; None: now."""
        seconds = time.time() if started is None else started
        self._started = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
        self._activity = "starting"
        self._since = time.monotonic()
        self._stages: dict[str, float] = {}

    def timed(self, report_progress: Callable[[str], None]) -> Callable[[str], None]:
        """The same function, which also ends the activity before."""

        def report(activity: str) -> None:
            self._enter(activity)
            report_progress(activity)

        return report

    def _enter(self, activity: str) -> None:
        now = time.monotonic()
        spent = self._stages.get(self._activity, 0.0) + now - self._since
        self._stages[self._activity] = round(spent, 3)
        self._activity, self._since = activity, now

    def close(self) -> Examination:
        """The record, when the examination is over."""
        self._enter("")
        return Examination(
            started=f"{self._started:%Y-%m-%dT%H:%M:%SZ}",
            command=command_line(),
            stages=self._stages,
        )


_called: ContextVar[str] = ContextVar("called", default="")


@contextlib.contextmanager
def called_from_python(function: str) -> Iterator[None]:
    """Records made meanwhile name this function in place of the process's command line."""
    token = _called.set(function)
    try:
        yield
    finally:
        _called.reset(token)


def command_line() -> tuple[str, ...]:
    """The words of this process's command line, without secrets, or the function called."""
    if function := _called.get():
        return (function,)
    return ("doctor", *hide_in_arguments(map(printable, sys.argv[1:])))


def working_directory() -> str:
    """Where the command was started, "" if that no longer exists."""
    try:
        return printable(os.getcwd())  # noqa: PTH109 - Path.cwd() is the same with more
    except OSError:
        return ""

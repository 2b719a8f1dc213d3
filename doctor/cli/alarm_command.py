"""The user's command for alarms: it gets a finding as JSON on its stdin."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping

DEADLINE = 60.0
"""Seconds that a command may take."""
END_SECONDS = 15.0
"""How long its end is waited for when the training has ended."""
MOST = 50
"""Commands in all: one per code, and once more where a warning becomes a failure."""


class AlarmCommand:
    """Runs a shell command line in a session of its own; the training never waits for it."""

    def __init__(self, line: str, environ: Mapping[str, str]) -> None:
        self._line, self._environ = line, dict(environ)
        self._running: list[tuple[subprocess.Popen[bytes], float]] = []
        self._count = 0

    def run(self, finding: str) -> None:
        """Start it with this line of JSON; one that cannot be started is one line on stderr."""
        self._reap()
        if self._count >= MOST:
            return
        self._count += 1
        try:
            with tempfile.TemporaryFile() as stdin:
                stdin.write(finding.encode())
                stdin.seek(0)
                child = subprocess.Popen(
                    ["/bin/sh", "-c", self._line],
                    stdin=stdin,
                    stdout=subprocess.DEVNULL,
                    env=self._environ,
                    start_new_session=True,
                )
        except OSError as error:
            _say(f"--on-alarm could not be started: {error.strerror or error}")
            return
        self._running.append((child, time.monotonic() + DEADLINE))

    def end(self) -> None:
        """Wait for what still runs, for some seconds; then end it."""
        until = time.monotonic() + END_SECONDS
        for child, deadline in self._running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(max(0.0, min(until, deadline) - time.monotonic()))
            _finish(child)
        self._running.clear()

    def _reap(self) -> None:
        """Forget those that have ended, and end those that are over their time."""
        now = time.monotonic()
        waiting = []
        for child, deadline in self._running:
            if child.poll() is None and now <= deadline:
                waiting.append((child, deadline))
            else:
                _finish(child)
        self._running = waiting


def _finish(child: subprocess.Popen[bytes]) -> None:
    """End the command's session, if it still runs."""
    if child.poll() is None:
        _say("--on-alarm was ended: it took too long")
        with contextlib.suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    elif child.returncode:
        _say(f"--on-alarm ended with {child.returncode}")


def _say(text: str) -> None:
    print(f"doctor guard: {text}", file=sys.stderr, flush=True)

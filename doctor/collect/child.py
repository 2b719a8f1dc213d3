"""A probe in a process of its own: a hang, a crash and invalid output are facts too.

A probe writes JSON lines to the descriptor named by its first argument:
    {"enter": "nvmlInit"}              entering a call that may hang or crash
    {"left": "nvmlInit", "seconds": x} the call returned
    {"note": {...}}                    a partial result, kept even if the probe dies later
    {"answer": {...}}                  the request is complete
    {"error": "OSError: ...", "code": n}  the request failed
A probe that serves several requests reads them as JSON lines from stdin and exits at the end of
stdin. It is killed when this process ends, however that is. The output of its libraries goes to
stderr; the last part of it is kept.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import selectors
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from doctor._util.records import Ended
from doctor.collect.child_messages import (
    Answer,
    Message,
    Progress,
    end_of_request,
    parsed,
    signal_name,
    with_stage,
)
from doctor.collect.extra_time import ExtraTime, is_uninterruptible

PROBES = Path(__file__).parents[1] / "probes"
PARENT_PIPE = "DOCTOR_PARENT_PIPE"
"""Names a pipe whose other end nobody but this process has: the probe ends when it is closed."""
TAIL = 64 * 1024
LINE = 64 * 1024 * 1024
CUT_OFF = Ended(how="budget", detail="cut off by --budget")
POLL_SECONDS = 0.25
"""How often a silent child is polled: a process it left behind may keep its pipe open."""
EXIT_SECONDS = 5.0
"""In which a child that closed its report pipe exits, on a machine that runs much else."""


def probe_command(python: str, probe: str, *arguments: str) -> list[str]:
    """The command line of a probe, "doctor_side.nvml"; Child adds the descriptor."""
    return [python, str(PROBES / "launch.py"), probe, *arguments]


def environment() -> dict[str, str]:
    """The environment of a probe: without the variable that hides its neighbouring modules."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}


class Child:
    """A running probe, with a deadline for every request."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        """Start it. Raises OSError if the program cannot be started."""
        self.started = time.monotonic()
        self.budget_end = math.inf
        """When the budget of the run is spent, on the monotonic clock."""
        self._partial = bytearray()
        self._lines: deque[bytes] = deque()
        self._last_read = -math.inf
        """The deadline after which its output was read once more."""
        self._tail = b""
        self._ended = False
        reading, writing = os.pipe()
        theirs, self._life = os.pipe()
        try:
            self._process = subprocess.Popen(
                [*command[:2], str(writing), *command[2:]],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(writing, theirs),
                env={**(os.environ if env is None else env), PARENT_PIPE: str(theirs)},
                start_new_session=True,
            )
        except BaseException:
            os.close(reading)
            os.close(self._life)
            raise
        finally:
            os.close(writing)
            os.close(theirs)
        assert self._process.stdout
        self._reading, self._output = reading, self._process.stdout.fileno()
        self._selector = selectors.DefaultSelector()
        for descriptor in (self._reading, self._output):
            os.set_blocking(descriptor, False)
            self._selector.register(descriptor, selectors.EVENT_READ)

    @property
    def alive(self) -> bool:
        return not self._ended and self._process.poll() is None

    @property
    def output(self) -> str:
        """The last part of its stdout and stderr."""
        return self._tail.decode("utf-8", "replace")

    def send(self, request: Mapping[str, object]) -> None:
        """Write a request to its stdin; if it is dead, `wait` returns how it ended."""
        assert self._process.stdin
        if self._process.stdin.closed:
            return
        with contextlib.suppress(OSError):
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()

    def close_stdin(self) -> None:
        """Ask it to exit."""
        assert self._process.stdin
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def wait(
        self,
        seconds: float,
        on_enter: Callable[[str], None] = lambda stage: None,
        on_note: Callable[[dict[str, Any]], None] | None = None,
        extra_seconds: float = 0.0,
        look: bool = True,
    ) -> Answer:
        """The answer to the oldest open request, or how the child ended without one.

        A child that does not answer within `seconds` is killed, and abandoned if SIGKILL has no
        effect. With `on_note`, notes are passed on instead of kept, and each one restarts the
        deadline: a child that reports its progress may take as long as it needs. With
        `extra_seconds`, so does one that computes, as a compiler does, for that much longer.
        Without `look` it is not asked where it waits, which takes half a second after the deadline.
        """
        started = time.monotonic()
        deadline = started + seconds
        extra = ExtraTime(self._process.pid, seconds, extra_seconds)
        progress = Progress()
        while True:
            message = self._next(deadline)
            elapsed = time.monotonic() - started
            if progress.exceeds_limit:
                message = Ended(how="error", detail="the probe wrote too many notes")
            if isinstance(message, Ended):
                if extra.extend(message, deadline):
                    deadline = extra.deadline
                    continue
                timed_out = message.how == "timeout"
                waits = is_uninterruptible(self._process.pid) if timed_out and look else None
                self.kill()
                ended = with_stage(message, progress.inside, elapsed)
                return progress.close(ended, busy=extra.busy, uninterruptible=waits)
            if end := end_of_request(message, elapsed):
                return progress.close(end, message.answer)
            if message.note is not None and on_note is not None:
                deadline = time.monotonic() + seconds
                on_note(message.note)
                continue
            progress.add(message)
            if message.enter is not None:
                on_enter(progress.inside)

    def _next(self, deadline: float) -> Message | Ended:
        """The next message, or how the child ended; the detail does not name the stage yet."""
        if self._ended:
            return Ended(how="error", detail="the probe ended before the request")
        while not self._lines:
            now = time.monotonic()
            if now >= self.budget_end:
                return CUT_OFF
            remaining = min(deadline, self.budget_end) - now
            if remaining <= 0:
                if self._last_read == deadline:
                    return Ended(how="timeout")
                self._last_read = deadline  # the doctor itself may have been stopped until now
            if not self._pump(max(0.0, min(remaining, POLL_SECONDS))):
                return self._exit()
        message = parsed(self._lines.popleft())
        return message or Ended(how="error", detail="the probe wrote an invalid message")

    def _pump(self, seconds: float) -> bool:
        """Read the available output; False if no more can come or a line is too long."""
        ready = self._selector.select(seconds)
        if not self._has_report(ready) and self._process.poll() is not None:
            ready = self._selector.select(0)
            if not self._has_report(ready):
                return False
        for key, _ in ready:
            chunk = os.read(key.fd, 1 << 16)
            if key.fd == self._output:
                self._tail = (self._tail + chunk)[-TAIL:]
                if not chunk:
                    self._selector.unregister(self._output)
                continue
            head, newline, rest = chunk.rpartition(b"\n")
            if newline:
                self._lines.extend(bytes(self._partial + head).split(b"\n"))
                self._partial = bytearray()
            self._partial += rest
            if not chunk or len(self._partial) > LINE:
                return False
        return True

    def _has_report(self, ready: list[tuple[selectors.SelectorKey, int]]) -> bool:
        return any(key.fd == self._reading for key, _ in ready)

    def _exit(self) -> Ended:
        """How it ended once its report pipe is closed; the detail is the last line it printed."""
        if len(self._partial) > LINE:
            return Ended(how="error", detail="the probe wrote a line that is too long")
        try:
            code = self._process.wait(EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            return Ended(how="error", detail="the probe closed its pipe but kept running")
        if code < 0:
            return Ended(how="signal", detail=signal_name(-code))
        self._drain()
        last = (self.output.strip().splitlines() or [f"exit status {code} and no message"])[-1]
        return Ended(how="error", detail=last[:2000])

    def _drain(self) -> None:
        """Read the rest of its output: at most what a pipe holds, for others may still write."""
        with contextlib.suppress(KeyError):
            self._selector.unregister(self._reading)
        limit = 1 << 20
        while limit > 0 and (ready := self._selector.select(0)):
            for key, _ in ready:
                chunk = os.read(key.fd, 1 << 16)
                self._tail, limit = (self._tail + chunk)[-TAIL:], limit - len(chunk)
                if not chunk:
                    self._selector.unregister(key.fd)

    def kill(self) -> None:
        """Kill its process group and wait one second; a child stuck in the driver is abandoned."""
        if self._ended:
            return
        self.kill_group()
        self._ended = True
        self.close_stdin()
        try:
            self._process.wait(1.0)
        except subprocess.TimeoutExpired:  # it is reaped if it ends after all
            threading.Thread(target=self._process.wait, daemon=True).start()
        self._selector.close()
        for descriptor in (self._reading, self._life):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        assert self._process.stdout
        self._process.stdout.close()

    def kill_group(self) -> None:
        """Send SIGKILL to its process group and do not wait; safe to call from any thread."""
        if not self._ended:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

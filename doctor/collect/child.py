"""A probe in a process of its own: a hang, a crash or garbage is a fact too.

A probe writes JSON lines to the descriptor named by its first argument:
    {"enter": "nvmlInit"}              about to call what may hang or crash
    {"left": "nvmlInit", "seconds": x} came back from it
    {"note": {...}}                    something worth keeping even if it dies later
    {"answer": {...}}                  the request is done
    {"error": "OSError: ...", "code": n}  the request failed
Requests, where a probe serves more than one, arrive as JSON lines on its stdin; the end of stdin
tells it to leave. What its libraries print goes to stderr, of which the tail is kept.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from doctor._util.records import Ended

PROBES = Path(__file__).parents[1] / "probes"
TAIL = 64 * 1024
LINE = 64 * 1024 * 1024
NOTES = 100_000
"""Notes and stages that one request may tell; a probe that goes on and on is broken."""
CUT_OFF = Ended(how="budget", detail="cut off by --budget")
GLANCE = 0.25
"""How often a silent child is looked at: its pipe may be held open by a process it left behind."""


def probe_command(python: str, probe: str, *arguments: str) -> list[str]:
    """The command line of a probe, "training_side/torch_stages"; Child adds the descriptor."""
    return [python, str(PROBES / "launch.py"), probe, *arguments]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one request."""

    ended: Ended
    answer: dict[str, Any] | None = None
    notes: tuple[dict[str, Any], ...] = ()
    stages: tuple[tuple[str, Ended], ...] = ()
    """Calls entered, in order, each with how it ended; repeated ones are summed."""

    @property
    def placed(self) -> Ended:
        """How it ended, with the call that an error came from; hangs and signals name theirs."""
        if self.ended.how != "error" or not self.stages or self.stages[-1][1].ok:
            return self.ended
        detail = f"{self.stages[-1][0]}: {self.ended.detail}"
        return msgspec.structs.replace(self.ended, detail=detail)


class _Message(msgspec.Struct):
    """One line of a probe, of which nothing is taken for granted."""

    enter: str | None = None
    left: str | None = None
    seconds: float = 0.0
    note: dict[str, Any] | None = None
    answer: dict[str, Any] | None = None
    error: str | None = None
    code: int | None = None


msgspec.json.Decoder(_Message)
"""Built before there are threads; see `doctor.collect.children`."""


@dataclass(slots=True)
class _Progress:
    """What one request has told so far."""

    notes: list[dict[str, Any]] = field(default_factory=list)
    spent: dict[str, float] = field(default_factory=dict)
    inside: str = ""
    since: float = 0.0

    @property
    def flooded(self) -> bool:
        return len(self.notes) + len(self.spent) > NOTES

    def take(self, message: _Message) -> None:
        if message.enter is not None:
            self.inside, self.since = message.enter, time.monotonic()
            self.spent.setdefault(self.inside, 0.0)
        elif message.left is not None:
            self.spent[message.left] = self.spent.get(message.left, 0.0) + message.seconds
            self.inside = ""
        elif message.note is not None:
            self.notes.append(message.note)

    def close(self, ended: Ended, answer: dict[str, Any] | None = None) -> Answer:
        stages = [(name, Ended(how="ok", seconds=spent)) for name, spent in self.spent.items()]
        if self.inside and not ended.ok:
            spent = self.spent[self.inside] + time.monotonic() - self.since
            stages = [pair for pair in stages if pair[0] != self.inside]
            last = Ended(how=ended.how, detail=ended.detail, seconds=spent, code=ended.code)
            stages.append((self.inside, last))
        return Answer(ended, answer, tuple(self.notes), tuple(stages))


class Child:
    """A running probe, with a deadline for every request."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        """Start it. Raises OSError if the program cannot be started."""
        self.started = time.monotonic()
        self.until = math.inf
        """When the time of the whole examination is over, on the monotonic clock."""
        self._partial = bytearray()
        self._lines: deque[bytes] = deque()
        self._tail = b""
        self._ended = False
        reading, writing = os.pipe()
        try:
            self._process = subprocess.Popen(
                [*command[:2], str(writing), *command[2:]],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(writing,),
                env=dict(env) if env is not None else None,
                start_new_session=True,
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        assert self._process.stdout
        self._reading, self._noise = reading, self._process.stdout.fileno()
        self._selector = selectors.DefaultSelector()
        for descriptor in (self._reading, self._noise):
            os.set_blocking(descriptor, False)
            self._selector.register(descriptor, selectors.EVENT_READ)

    @property
    def alive(self) -> bool:
        return not self._ended and self._process.poll() is None

    @property
    def noise(self) -> str:
        """The tail of what it printed."""
        return self._tail.decode("utf-8", "replace")

    def send(self, request: Mapping[str, Any]) -> None:
        """Put a request into its stdin; that it died meanwhile is found by `wait`."""
        assert self._process.stdin
        if self._process.stdin.closed:
            return
        with contextlib.suppress(OSError):
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()

    def close_stdin(self) -> None:
        """Tell it to finish."""
        assert self._process.stdin
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def wait(
        self,
        seconds: float,
        on_enter: Callable[[str], None] = lambda stage: None,
        on_note: Callable[[dict[str, Any]], None] | None = None,
    ) -> Answer:
        """The answer to the oldest open request, or how the child ended without one.

        A child that gives no answer in time is killed, and abandoned if even that does not help.
        With `on_note` notes are heard as they come and not kept, and each gives it the whole time
        again: a child that tells how far it is may take as long as it needs.
        """
        began = time.monotonic()
        deadline = began + seconds
        progress = _Progress()
        while True:
            message = self._next(deadline)
            spent = time.monotonic() - began
            if progress.flooded:
                message = Ended(how="error", detail="the probe wrote notes without end")
            if isinstance(message, Ended):
                self.kill()
                return progress.close(_placed(message, progress.inside, spent))
            if message.answer is not None:
                return progress.close(Ended(how="ok", seconds=spent), message.answer)
            if message.error is not None:
                detail, code = message.error[:2000], message.code
                return progress.close(Ended(how="error", detail=detail, seconds=spent, code=code))
            if message.note is not None and on_note is not None:
                deadline = time.monotonic() + seconds
                on_note(message.note)
                continue
            progress.take(message)
            if message.enter is not None:
                on_enter(progress.inside)

    def _next(self, deadline: float) -> _Message | Ended:
        """The next message, or how it ended: text where the place is still to be told."""
        if self._ended:
            return Ended(how="error", detail="the probe was ended before it was asked")
        while not self._lines:
            now = time.monotonic()
            if now >= self.until:
                return CUT_OFF
            left = min(deadline, self.until) - now
            if left <= 0:
                return Ended(how="timeout")
            if not self._pump(min(left, GLANCE)):
                return self._exit()
        message = _parsed(self._lines.popleft())
        return message or Ended(how="error", detail="the probe wrote what is not a message")

    def _pump(self, seconds: float) -> bool:
        """Read what is there; False once nothing more can come or a line has no end."""
        ready = self._selector.select(seconds)
        if not self._reports(ready) and self._process.poll() is not None:
            ready = self._selector.select(0)
            if not self._reports(ready):
                return False
        for key, _ in ready:
            chunk = os.read(key.fd, 1 << 16)
            if key.fd == self._noise:
                self._tail = (self._tail + chunk)[-TAIL:]
                if not chunk:
                    self._selector.unregister(self._noise)
                continue
            head, newline, rest = chunk.rpartition(b"\n")
            if newline:
                self._lines.extend(bytes(self._partial + head).split(b"\n"))
                self._partial = bytearray()
            self._partial += rest
            if not chunk or len(self._partial) > LINE:
                return False
        return True

    def _reports(self, ready: list[tuple[selectors.SelectorKey, int]]) -> bool:
        return any(key.fd == self._reading for key, _ in ready)

    def _exit(self) -> Ended:
        """Nothing more comes from its report pipe: how it ended, with the last line it printed."""
        if len(self._partial) > LINE:
            return Ended(how="error", detail="the probe wrote a line without end")
        try:
            code = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return Ended(how="error", detail="the probe closed its pipe and went on")
        if code < 0:
            return Ended(how="signal", detail=_signal_name(-code))
        self._drain()
        last = (self.noise.strip().splitlines() or [f"exit status {code} and no message"])[-1]
        return Ended(how="error", detail=last[:2000])

    def _drain(self) -> None:
        """What it printed last: as much as a pipe holds, for somebody may still be writing."""
        with contextlib.suppress(KeyError):
            self._selector.unregister(self._reading)
        left = 1 << 20
        while left > 0 and (ready := self._selector.select(0)):
            for key, _ in ready:
                chunk = os.read(key.fd, 1 << 16)
                self._tail, left = (self._tail + chunk)[-TAIL:], left - len(chunk)
                if not chunk:
                    self._selector.unregister(key.fd)

    def kill(self) -> None:
        """Kill its whole group and wait a second; one stuck in the driver is abandoned."""
        if self._ended:
            return
        self.kill_group()
        self._ended = True
        self.close_stdin()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        self._selector.close()
        with contextlib.suppress(OSError):
            os.close(self._reading)
        assert self._process.stdout
        self._process.stdout.close()

    def kill_group(self) -> None:
        """Send SIGKILL to its process group and do not wait; safe to call from any thread."""
        if not self._ended:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)


def _parsed(line: bytes) -> _Message | None:
    """The line as a message; None if it is none."""
    try:
        told = json.loads(line)
        if b"\\ud" in line.lower():  # a lone surrogate can be in no facts file
            text = json.dumps(told, ensure_ascii=False)
            told = json.loads(text.encode("utf-8", "replace"))
        return msgspec.convert(told, _Message)
    except (ValueError, RecursionError):
        return None


def _signal_name(number: int) -> str:
    known = {member.value: member.name for member in signal.Signals}
    return known.get(number, f"signal {number}")


def _placed(ended: Ended, inside: str, spent: float) -> Ended:
    where = f" inside {inside}" if inside else ""
    detail = ended.detail
    if ended.how == "timeout":
        detail = f"no answer in {round(spent, 1):g} s{where}"
    elif ended.how in ("signal", "budget"):
        detail = f"{ended.detail}{where}"
    return Ended(how=ended.how, detail=detail, seconds=spent, code=ended.code)

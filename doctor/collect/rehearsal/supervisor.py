"""A process of its own that starts the command confined, and ends all that the command started.

`python -P -m doctor.collect.rehearsal.supervisor FD`: a file without a name is open as FD, as the
environment in it has secrets. It is the subreaper of the command, so that workers and daemons that
left their session are still its descendants, and it outlives the doctor: when stdin, whose other
end only the doctor has, is closed, it kills them all. Lines on stdin are `signal NUMBER` (to the
command) and `kill` (to all); lines on stdout are events as JSON.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import sys
import time
from dataclasses import dataclass
from typing import NoReturn

from doctor._util.errors import reason_of
from doctor._util.parent_death import die_with_parent
from doctor.collect.rehearsal import landlock, namespaces
from doctor.collect.rehearsal.processes import descendants

SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER"""
POLL_SECONDS = 0.05
LINGER_SECONDS = 5.0
"""For helpers (resource trackers, loggers) to end after the command. Our own number."""
KILL_SECONDS = 20.0
"""How long killed processes may take to vanish: one in the driver may never."""


@dataclass(frozen=True)
class Spec:
    """What to start; `writable` are paths, `devices` may be opened for writing."""

    command: list[str]
    environment: dict[str, str]
    directory: str
    output: str
    """Path of the file for stdout and stderr."""
    writable: list[str]
    devices: list[str]
    files: bool
    """Refuse writes elsewhere."""
    network: bool
    """Leave the network open."""


def main() -> int:
    with open(int(sys.argv[1]), encoding="utf-8") as file:
        spec = Spec(**json.load(file))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the doctor closes stdin
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(SUBREAPER, 1, 0, 0, 0)
    child = _start(spec)
    if child:
        Watched(child).wait()
    return 0


def _send(**event: object) -> None:
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(event).encode() + b"\n")


def _start(spec: Spec) -> int:
    """The pid of the command; 0 where it could not be started as asked."""
    reading, writing = os.pipe()
    began = time.time()
    child = os.fork()
    if not child:
        os.close(reading)
        _run(spec, writing)
    os.close(writing)
    with open(reading, "rb") as pipe:
        answer = json.loads(pipe.read() or b"{}")
    if "error" in answer:
        os.waitpid(child, 0)
        _send(event="refused", reason=answer["error"])
        return 0
    _send(event="started", pid=child, moment=began, **answer)
    return child


def _run(spec: Spec, pipe: int) -> NoReturn:
    """In the child: become the command."""
    try:
        protection = _confine(spec)
        os.write(pipe, json.dumps(protection).encode())
        os.set_inheritable(pipe, False)
        os.execvpe(spec.command[0], spec.command, spec.environment)  # noqa: S606
    except BaseException as error:
        os.write(pipe, json.dumps({"error": f"{spec.command[0]}: {reason_of(error)}"}).encode())
    os._exit(127)


def _confine(spec: Spec) -> dict[str, object]:
    """Streams, session, network, files; what of the protection holds. Raises OSError."""
    os.setsid()
    output = os.open(spec.output, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    die_with_parent()
    for number in signal.valid_signals():
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    os.chdir(spec.directory)
    why = "" if spec.network else _close_network()
    closed = not spec.network and not why
    files = _confine_files(spec, mounts=closed) if spec.files else {}
    return {"network": "closed" if closed else "open", "why": why, **files}


def _close_network() -> str:
    """Why the network could not be closed, "" if it was."""
    try:
        namespaces.without_network()
    except OSError as error:
        return f"a network namespace: {error.strerror or error}"
    return ""


def _confine_files(spec: Spec, *, mounts: bool) -> dict[str, object]:
    """By read-only mounts, where there are namespaces, and Landlock. Raises OSError."""
    if mounts:
        try:
            namespaces.read_only_but(spec.writable)
        except OSError:
            mounts = False
    try:
        found = landlock.restrict_writes(spec.writable, spec.devices)
    except OSError as error:
        if not mounts:
            text = f"writes cannot be confined: {error.strerror}; --unprotected accepts that"
            raise OSError(error.errno, text) from None
        found = 0
    return {"landlock": found, "mounts": mounts}


class Watched:
    """The command and everything that it started."""

    def __init__(self, child: int) -> None:
        self.child = child
        self.code: int | None = None
        self.killed = False
        """Everything was killed, or would not end by it."""
        self.ended = 0.0
        """When it ended, monotonic seconds."""
        self.signal = 0
        """What was sent to the command; what it leaves gets it, too, as from a scheduler."""
        self.orphans: list[str] = []
        """Names of what got it so."""

    def wait(self) -> None:
        """Until the command has ended; what is left of it then is reported and killed."""
        orders, is_open, reported = b"", True, False
        while not self.killed and (self.code is None or (is_open and self.goes_on())):
            ready, _, _ = select.select([0] if is_open else [], [], [], POLL_SECONDS)
            if ready:
                part = os.read(0, 4096)
                is_open = bool(part)
                orders += part
            *lines, orders = orders.split(b"\n")
            for line in lines if is_open else [b"kill"]:
                self.obey(line.decode())
            self.reap()
            if self.code is not None and not reported:
                reported = True
                _send(event="ended", code=self.code, moment=time.time())
        left = sorted({name for _, name in descendants(os.getpid())})
        if not self.killed:
            self.kill()
        stuck = sorted({name for _, name in descendants(os.getpid())})
        _send(event="done", left=left, stuck=stuck, orphans=self.orphans)

    def goes_on(self) -> bool:
        """Whether to wait for helpers of the command, which are signalled after a first wait: a
        launcher or a shell that dies of the signal does not pass it on, and nothing is waited for.
        """
        died = bool(self.signal) and self.code == -self.signal and not self.orphans
        if not died and self.lingers():
            return True
        if not self.signal or self.orphans or not (found := descendants(os.getpid())):
            return False
        self.orphans, self.ended = sorted({name for _, name in found}), time.monotonic()
        for pid, _ in found:
            with contextlib.suppress(OSError):
                os.kill(pid, self.signal)
        return True

    def lingers(self) -> bool:
        """Whether helpers of the command still have time to end by themselves."""
        return bool(descendants(os.getpid())) and time.monotonic() - self.ended < LINGER_SECONDS

    def reap(self) -> None:
        """Take in who has ended."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    break
                if pid == self.child:
                    self.code, self.ended = os.waitstatus_to_exitcode(status), time.monotonic()

    def obey(self, order: str) -> None:
        """One line of stdin."""
        word, _, number = order.partition(" ")
        if word == "kill":
            self.kill()
        elif word == "signal" and self.code is None:
            self.signal = int(number)
            with contextlib.suppress(OSError):
                os.kill(self.child, int(number))

    def kill(self) -> None:
        """SIGKILL until no descendant is left: orphans become children of this process."""
        deadline = time.monotonic() + KILL_SECONDS
        while (found := descendants(os.getpid())) and time.monotonic() < deadline:
            for pid, _ in found:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            self.reap()
            time.sleep(POLL_SECONDS / 5)
        self.killed = True
        self.reap()


if __name__ == "__main__":
    sys.exit(main())

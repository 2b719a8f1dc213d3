"""Runs the user's command under the guard: environment, signals, the end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import msgspec

from doctor._util.atomic_write import PRIVATE_DIRECTORY, atomic_write
from doctor._util.errors import UserError
from doctor._util.secrets import hide_in_arguments
from doctor.collect.earlier_checkpoint import Span, find_between, places
from doctor.collect.guard_overseer import Overseer
from doctor.collect.guard_records import FILE, GPUS, RUN, read_records
from doctor.collect.training_gpus import GpuSampler, TrainingGpus, encode
from doctor.facts.guard import EarlierCheckpoint, Guarded

VARIABLE = "DOCTOR_GUARD"
"""The settings, as doctor.guard.settings reads them."""
STOP = "stop"
"""The file with which a rank asks to end the job."""
POLL_SECONDS = 0.2
GRACE_SECONDS = 30.0
"""Between SIGTERM and SIGKILL."""
ENDING = ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGINT")
"""Signals that end a training from outside."""
FORWARDED = ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGINT")


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """How the command ended: its exit code, or 128 + the signal's number."""

    code: int
    stopped: bool
    """By the guard, after a failure."""
    signal: str
    """The last of ENDING that the guard received, "" for none."""


def bootstrap() -> Path:
    """The directory for PYTHONPATH. Raises UserError where the doctor is not a directory."""
    path = Path(__file__).parent.parent / "guard" / "bootstrap"
    if not path.is_dir():
        raise UserError(
            "doctor guard cannot run from a zip archive (zipapp, PEX, shiv); install its "
            "checkout with pip, pipx or uv"
        )
    return path


def environment(settings: Mapping[str, object], environ: Mapping[str, str]) -> dict[str, str]:
    """The command's environment."""
    paths = [str(bootstrap()), *filter(None, [environ.get("PYTHONPATH")])]
    return {**environ, "PYTHONPATH": os.pathsep.join(paths), VARIABLE: json.dumps(settings)}


def run_command(
    command: Sequence[str],
    settings: Mapping[str, object],
    out: Path,
    tell: Callable[[str], None],
    stall_seconds: float | None = None,
) -> CommandEnd:
    """Run the command to its end, with the stdin, stdout and stderr of this process.

    `tell` gets the code of each alarm while it runs, in another thread. `stall_seconds` without a
    step are a stall; None: by what is usual. Raises UserError where the command cannot be started.
    """
    started = time.time()
    try:
        child = subprocess.Popen(command, env=environment(settings, os.environ))
    except OSError as error:
        raise UserError(f"{command[0]}: {error.strerror or error}") from None
    overseer = Overseer(
        out,
        tell,
        lives=lambda pid: _is_guarded(pid, out),
        stall_seconds=stall_seconds,
        private=not settings.get("shared"),
    )
    overseer.start()
    sampler = GpuSampler(json.dumps(str(out)) if settings.get("all") else "")
    try:
        with _forwarding(child) as received:
            stopped = _wait(child, out, stop=bool(settings.get("stop")))
    finally:
        overseer.end()
        gpus = sampler.stop()
    code = child.returncode if child.returncode >= 0 else 128 - child.returncode
    ended_by = [name for name, at in received if time.monotonic() - at < GRACE_SECONDS]
    end = CommandEnd(code, stopped, ended_by[-1] if ended_by else "")
    checkpoint = _earlier_checkpoint(out, command, started)
    _write_end(
        out, command, end, gpus, checkpoint, overseer.watched, private=not settings.get("shared")
    )
    return end


def _wait(child: subprocess.Popen[bytes], out: Path, *, stop: bool) -> bool:
    """Wait for the end; return whether the guard asked for it."""
    if not stop:
        child.wait()
        return False
    while child.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(POLL_SECONDS)
        if child.returncode is None and (out / STOP).exists():
            _terminate(child, out)
            return True
    return (out / STOP).exists()


def _terminate(child: subprocess.Popen[bytes], out: Path) -> None:
    """End the job: the command first, which ends its ranks, then ranks that are left."""
    child.terminate()
    try:
        child.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + GRACE_SECONDS
        ranks = [pid for pid in _ranks(out) if _is_guarded(pid, out)]
        for pid in ranks:
            with contextlib.suppress(OSError):
                os.kill(pid, number)
        while any(_is_guarded(pid, out) for pid in ranks) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)


def _ranks(out: Path) -> Iterator[int]:
    """The processes on this machine that wrote records."""
    for entry in out.iterdir():
        if match := FILE.fullmatch(entry.name):
            yield int(match[2])


def _is_guarded(pid: int, out: Path) -> bool:
    """Whether the process runs with this guard's settings: pids are reused."""
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return f"{VARIABLE}=".encode() in environ and str(out).encode() in environ


@contextlib.contextmanager
def _forwarding(child: subprocess.Popen[bytes]) -> Iterator[list[tuple[str, float]]]:
    """Pass signals on to the command. Ctrl-C in a terminal reaches it without this.

    The list gets the names of those received that end a training, and when (monotonic seconds).
    """
    received: list[tuple[str, float]] = []

    def forward(number: int, frame: FrameType | None) -> None:
        if (name := signal.Signals(number).name) in ENDING:
            received.append((name, time.monotonic()))
        if number == signal.SIGINT and _in_foreground():
            return
        with contextlib.suppress(OSError):
            child.send_signal(number)

    names = [getattr(signal, name) for name in FORWARDED]
    before = {
        number: signal.signal(number, forward)
        for number in names
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _in_foreground() -> bool:
    """Whether this process is in its terminal's foreground group, which gets Ctrl-C as a whole."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError, AttributeError):
        return False


def _write_end(
    out: Path,
    command: Sequence[str],
    end: CommandEnd,
    gpus: TrainingGpus,
    checkpoint: EarlierCheckpoint | None,
    watched: int,
    *,
    private: bool,
) -> None:
    """How the command ended, for `doctor report`; a full disk loses it."""
    record = {
        "command": hide_in_arguments(command),
        "exit_code": end.code,
        "signal": end.signal,
        "stopped": end.stopped,
        "watched": watched,
        "checkpoint": checkpoint and msgspec.to_builtins(checkpoint),
    }
    with contextlib.suppress(OSError, UserError):
        out.mkdir(PRIVATE_DIRECTORY if private else 0o777, parents=True, exist_ok=True)
        data = json.dumps(record).encode()
        atomic_write(out / RUN, data, RUN, private=private, follow=False)
        if gpus.gpus is not None:
            atomic_write(out / GPUS, encode(gpus), GPUS, private=private, follow=False)


def _earlier_checkpoint(
    out: Path, command: Sequence[str], started: float
) -> EarlierCheckpoint | None:
    """The newest checkpoint between the start and the first failure; None where nothing failed."""
    try:
        guarded = read_records(out)
    except OSError:
        return None
    if not isinstance(guarded, Guarded) or not guarded.first_failure:
        return None
    saved = [each for process in guarded.processes for each in process.saved]
    span = Span(started, guarded.first_failure / 1000)
    return find_between(span, places(command, Path.cwd(), saved), saved)

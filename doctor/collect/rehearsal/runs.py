"""One run of the command under the supervisor: its events, its deadline, the signal."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from doctor._util.errors import UserError
from doctor.collect.guard_stalls import catches
from doctor.collect.guarded_command import VARIABLE as GUARD
from doctor.collect.guarded_command import bootstrap
from doctor.collect.rehearsal import places
from doctor.collect.rehearsal.host_memory import HostMemoryWatch
from doctor.collect.rehearsal.launchers import CALLS, write_stubs
from doctor.collect.rehearsal.supervisor import KILL_SECONDS
from doctor.collect.rehearsal.tail import Tail
from doctor.facts.rehearsal import Protection
from doctor.facts.rehearsal_runs import Cut, HostMemory, RunName

REHEARSAL = "DOCTOR_REHEARSAL"
POLL_SECONDS = 0.1
HELD_SECONDS = 1.0
"""How long rank 0 is held in its step after the signal, so that it can arrive."""
END_SECONDS = KILL_SECONDS + 10.0
"""For the supervisor to end what it killed, or to say what does not end, and to end itself."""
FRAMES = re.compile(r"frames-(\d{1,10})\.txt")
FRAMES_SIGNAL = signal.SIGRTMIN + 7
"""That of doctor.guard.rehearsal.observer."""
FRAMES_SECONDS = 2.0
"""For the processes of a hanging command to write where they are."""
LOG = "output.log"
GO = "go"
OFFLINE = {
    "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1",
    "NCCL_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo", "TP_SOCKET_IFNAME": "lo",
}  # fmt: skip
"""Where the network is closed: libraries use their caches, and ranks meet on the loopback."""
TRACKERS = {
    "WANDB_MODE": "disabled", "COMET_MODE": "DISABLED", "COMET_AUTO_LOG_DISABLE": "1",
    "NEPTUNE_MODE": "debug", "CLEARML_OFFLINE_MODE": "1", "SWANLAB_MODE": "disabled",
    "DO_NOT_TRACK": "1", "HF_HUB_DISABLE_TELEMETRY": "1",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is the same for all runs of a rehearsal."""

    workplace: places.Workplace
    files: bool
    """Refuse writes outside."""
    network: bool
    """Leave the network open."""
    writable: tuple[Path, ...] = ()
    grace: float = 30.0
    signal: str = "SIGTERM"
    in_output: bool = False
    """Start the command in {output}, where the working directory's entries are linked."""
    counts: bool = False
    """Count the arithmetic of a step of the first run."""
    progress: Callable[[str], None] = lambda text: None


@dataclass(kw_only=True)
class Ended:
    """How a run went; the records of its processes are files."""

    code: int | None = None
    began: float = 0.0
    """Seconds since 1970."""
    seconds: float = 0.0
    cut: Cut = ""
    signalled: float | None = None
    left: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    protection: Protection = field(default_factory=Protection)
    memory: HostMemory | None = None


def run(
    request: Request,
    name: RunName,
    command: Sequence[str],
    chain: str,
    deadline: float,
    stop_at: int = 0,
    hashed: tuple[int, ...] = (),
) -> Ended:
    """Run the command with {output} of this chain, for at most `deadline` seconds.

    At step `stop_at` the signal is sent; after the steps `hashed` all ranks record their state.
    Raises UserError where it cannot be started as asked.
    """
    workplace = request.workplace
    records = workplace.records(name)
    records.mkdir()
    output = workplace.output(chain)
    begins = not output.exists()
    output.mkdir(exist_ok=True)
    if begins and request.in_output:
        places.link_working_directory(workplace, output)
    words = [word.replace("{output}", str(output)) for word in command]
    spec = _spec(request, name, words, output, stop_at, hashed)
    process = _supervise(spec)
    try:
        return _Run(request, name, process, records, deadline, stop_at).watch()
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(OSError):
            process.stdin.close()  # the supervisor ends what is left
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
        process.stdout.close()


def _supervise(spec: dict[str, object]) -> subprocess.Popen[bytes]:
    """The supervisor; the spec has no name on a disk, as the environment in it has secrets."""
    module = "doctor.collect.rehearsal.supervisor"
    with open(os.memfd_create("spec"), "w", encoding="utf-8") as file:
        json.dump(spec, file)
        file.seek(0)
        return subprocess.Popen(
            [sys.executable, "-P", "-m", module, str(file.fileno())], pass_fds=(file.fileno(),),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip


def _spec(
    request: Request,
    name: RunName,
    command: list[str],
    output: Path,
    stop_at: int,
    hashed: tuple[int, ...],
) -> dict[str, object]:
    workplace, records = request.workplace, request.workplace.records(name)
    stubs = records / "stubs"
    write_stubs(stubs, records / CALLS)
    writable = places.writable(workplace, os.environ, request.writable)
    environment = {
        **os.environ,
        **TRACKERS,
        **({} if request.network else OFFLINE),
        "MLFLOW_TRACKING_URI": f"file:{workplace.scratch}/mlruns",
        "WANDB_DIR": str(workplace.scratch),
        "TMPDIR": str(workplace.scratch),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PATH": os.pathsep.join([str(stubs), os.environ.get("PATH", os.defpath)]),
        "PYTHONPATH": os.pathsep.join(
            [str(bootstrap()), *filter(None, [os.environ.get("PYTHONPATH")])]
        ),
        GUARD: json.dumps({"out": str(records), "parent": True}),
        REHEARSAL: json.dumps(
            {
                "records": str(records), "output": str(output), "writable": writable,
                "stop_at": stop_at, "go": str(records / GO),
                "hashed": hashed, "counts": request.counts and name == "run",
            }
        ),
    }  # fmt: skip
    directory = str(output) if request.in_output else os.getcwd()
    return {
        "command": command, "environment": environment, "directory": directory,
        "output": str(records / LOG), "writable": writable, "devices": places.devices(),
        "files": request.files, "network": request.network,
    }  # fmt: skip


class _Run:
    """The doctor's side of one run."""

    def __init__(
        self,
        request: Request,
        name: str,
        process: subprocess.Popen[bytes],
        records: Path,
        deadline: float,
        stop_at: int,
    ) -> None:
        self.request, self.name, self.process, self.records = request, name, process, records
        self.deadline, self.stop_at = time.monotonic() + deadline, stop_at
        self.end = Ended()
        self.tail = Tail(records)
        self.memory = HostMemoryWatch()
        self.signalled_at = self.cut_at = 0.0
        self.buffer = b""

    def watch(self) -> Ended:
        """Until the supervisor has ended everything."""
        assert self.process.stdout is not None
        try:
            while True:
                ready, _, _ = select.select([self.process.stdout], [], [], POLL_SECONDS)
                if ready:
                    part = os.read(self.process.stdout.fileno(), 65536)
                    if not part:
                        return self.end
                    self.buffer += part
                    *lines, self.buffer = self.buffer.split(b"\n")
                    for line in lines:
                        self.take(json.loads(line))
                self.look()
                if self.cut_at and time.monotonic() > self.cut_at + END_SECONDS:
                    self.end.stuck = ["the supervisor"]
                    return self.end
        except KeyboardInterrupt:
            self.end.cut = "interrupted"
            raise

    def take(self, event: dict[str, Any]) -> None:
        """One event of the supervisor. Raises UserError where the command did not start."""
        match event["event"]:
            case "refused":
                raise UserError(event["reason"])
            case "started":
                self.end.began = event["moment"]
                self.end.protection = Protection(
                    landlock=event.get("landlock", 0), mounts=event.get("mounts", False),
                    network=event["network"], why=event["why"],
                )  # fmt: skip
                if not self.request.network and event["network"] == "open":
                    raise UserError(
                        "this system allows no network without a route "
                        f"({event['why']}), so that only the known ways to upload can be refused; "
                        "--network accepts that"
                    )
            case "ended":
                self.end.code = None if self.end.cut else event["code"]
                self.end.seconds = event["moment"] - self.end.began
                self.end.memory = self.memory.facts()
            case "done":
                self.end.left, self.end.stuck = event["left"], event["stuck"]
                self.end.orphans = event["orphans"]

    def look(self) -> None:
        """Deadline, signal, progress."""
        now = time.monotonic()
        if self.end.seconds:
            return
        step = self.tail.step()
        self.memory.look(self.process.pid, stepping=step > 0)
        self.request.progress(f"{self.name}: step {step}" if step else f"{self.name}: started")
        if self.stop_at and not self.signalled_at and self.tail.paused:
            number = signal.Signals[self.request.signal].value
            self.signalled_at = now
            self.end.signalled = time.time() - self.end.began
            self.order(f"signal {number}")
            (self.records / GO).touch()
        # What the hooks do in the grace period is not the job's.
        own = HELD_SECONDS + self.tail.hashing
        late = self.signalled_at and now > self.signalled_at + self.request.grace + own
        if not self.end.cut and (now > self.deadline or late):
            self.end.cut = "grace" if late else "deadline"
            self.end.seconds = time.time() - self.end.began
            self.end.memory = self.memory.facts()
            self.frames()
            self.order("kill")
            self.cut_at = time.monotonic()

    def frames(self) -> None:
        """Ask the training's processes where they are."""
        asked = []
        for name in os.listdir(self.records):
            found = FRAMES.fullmatch(name)
            pid = int(found[1]) if found else 0
            if pid > 1 and catches(pid, FRAMES_SIGNAL):
                with contextlib.suppress(OSError):
                    os.kill(pid, FRAMES_SIGNAL)
                    asked.append(self.records / name)
        began = time.monotonic()
        with contextlib.suppress(OSError):
            while not all(path.stat().st_size for path in asked):
                if time.monotonic() - began > FRAMES_SECONDS:
                    return
                time.sleep(POLL_SECONDS)

    def order(self, line: str) -> None:
        """A line to the supervisor."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()

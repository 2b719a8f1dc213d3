"""Several doctors on this machine, as a launcher starts them: one process for each node."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import preloaded

EXAMINE = ("--device", "cpu", "--quick", "--no-smoke", "--no-config", "--format", "plain")
"""The shortest examination."""
ONE_MACHINE = ("--skip", "FLT002")
"""All nodes of a test have the network addresses of this machine."""
OUT_OF_REACH = 400
DOCTOR = (sys.executable, "-P", "-m", "doctor")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Node:
    """One doctor, and what it printed."""

    process: subprocess.Popen[bytes]
    started: float
    out: Path
    err: Path
    ended: float = 0.0
    patience: float = OUT_OF_REACH
    """Seconds after which it hangs, for whoever waits."""

    def wait(self) -> int:
        code = self.process.wait(self.patience)
        self.ended = self.ended or time.monotonic()
        return code

    @property
    def stdout(self) -> str:
        return self.out.read_text("utf-8")

    @property
    def stderr(self) -> str:
        return self.err.read_text("utf-8")


@dataclass
class Nodes:
    """Nodes n0, n1, ... of a fleet that meets on 127.0.0.1, named as Kubernetes names them."""

    count: int
    flags: Sequence[str] = EXAMINE
    deadline: float = OUT_OF_REACH
    port: int = field(default_factory=free_port)
    secret: str = ""
    command: Sequence[str] = (*DOCTOR, "fleet", "run")
    address: Sequence[str] = ("--address", "127.0.0.1")
    wrapper: Sequence[str] = ()
    """Words before the command of the nodes that are started next."""
    python: str = field(default_factory=preloaded.python)
    """The training interpreter."""
    over: bool = False
    nodes: dict[int, Node] = field(default_factory=dict)
    directory: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="doctor-nodes-")))

    def start(self, rank: int, *more: str, env: Mapping[str, str] | None = None) -> Node:
        """Start the doctor of one node; `env` on top of its variables."""
        variables = {
            **os.environ,
            "JOB_COMPLETION_INDEX": str(rank),
            "NODE_NAME": f"n{rank}",
            "DOCTOR_FLEET_SECRET": self.secret,
            **(env or {}),
        }
        words = [
            *self.wrapper,
            *self.command,
            *("--nodes-from", f"n[0-{self.count - 1}]", *self.address),
            *(("--port", str(self.port)) if self.address else ()),
            *("--deadline", str(self.deadline)),
            *(("--python", self.python, *ONE_MACHINE) if "run" in self.command else ()),
            *self.flags,
            *more,
        ]
        out, err = (self.directory / f"{rank}.{name}" for name in ("out", "err"))
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                words, env=variables, stdout=stdout, stderr=stderr, stdin=subprocess.DEVNULL
            )
        patience = max(OUT_OF_REACH, 3 * self.deadline)
        node = Node(process, time.monotonic(), out, err, patience=patience)
        self.nodes[rank] = node
        return node

    def run(self, *ranks: int) -> dict[int, int]:
        """Start these nodes, or all, and wait for their exit codes."""
        for rank in ranks or range(self.count):
            self.start(rank)
        return self.codes()

    def codes(self) -> dict[int, int]:
        return {rank: node.wait() for rank, node in self.nodes.items()}

    def end(self) -> None:
        """End what is left, stopped or not."""
        for node in self.nodes.values():
            node.process.kill()
            node.process.wait()

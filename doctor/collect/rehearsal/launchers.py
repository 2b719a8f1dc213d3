"""Commands that hand their work to others, where no confinement of this process reaches."""

from __future__ import annotations

import re
import shlex
import stat
from collections.abc import Sequence
from pathlib import Path

from doctor._util.errors import UserError

ELSEWHERE = {
    "srun": "Slurm's daemons", "sbatch": "Slurm's daemons", "salloc": "Slurm's daemons",
    "qsub": "the scheduler", "bsub": "the scheduler", "flux": "the scheduler",
    "ray": "Ray's daemons", "docker": "the container's daemon", "podman": "a container",
    "nerdctl": "the container's daemon", "ssh": "another machine", "pdsh": "other machines",
    "kubectl": "the cluster", "helm": "the cluster", "sky": "the cloud", "modal": "the cloud",
    "dstack": "the cloud", "runai": "the cluster", "systemd-run": "systemd", "sudo": "another user",
    "su": "another user", "tmux": "a server of its own", "screen": "a server of its own",
    "at": "a daemon", "batch": "a daemon",
}  # fmt: skip
"""Program -> who does the work."""
STUBS = ("scontrol", "sbatch", "scancel", "srun", "salloc", "qsub", "qdel", "bsub", "bkill", "ssh",
         "docker", "podman", "kubectl", "ray", "sudo", "systemd-run", "at", "crontab")  # fmt: skip
PRETEND = ("scontrol", "scancel", "qdel", "bkill")
"""Stubs that succeed: a job that requeues itself goes on as it would."""
INNER = re.compile(r"(^|/)(python[\d.]*|torchrun|accelerate|deepspeed|bash|sh|uv|conda|lightning)$")
NODES = ("--nnodes", "--num_machines", "--num-machines", "--num_nodes", "--num-nodes")
ONE_NODE = ("1", "1:1")
CALLS = "calls"


def refuse_launchers(command: Sequence[str]) -> None:
    """Raises UserError for a command whose work is done by others, or on several nodes."""
    program = Path(command[0]).name
    if program in ELSEWHERE:
        inner = _inner(command)
        line = shlex.join(inner) if inner else "COMMAND"
        raise UserError(
            f"{program} hands the work to {ELSEWHERE[program]}, which the doctor cannot confine; "
            f"rehearse what runs inside: doctor rehearse -- {line}"
        )
    for option, value in _options(command):
        if option in NODES and value not in ONE_NODE:
            raise UserError(
                f"{option} {value}: several nodes are not rehearsed; rehearse one of them with "
                f"{option} 1"
            )


def _inner(command: Sequence[str]) -> Sequence[str]:
    """From the first program on that the launcher would start; () if none is recognized."""
    for number, word in enumerate(command[1:], 1):
        if INNER.search(word) or word.endswith((".py", ".sh")):
            return command[number:]
    return ()


def _options(command: Sequence[str]) -> list[tuple[str, str]]:
    """Options and what follows them, which is their value if they have one."""
    pairs = []
    for word, following in zip(command, (*command[1:], ""), strict=True):
        option, _, value = word.partition("=")
        pairs.append((option, value or following))
    return pairs


def write_stubs(directory: Path, calls: Path) -> None:
    """Programs that only record how they were called, for the front of PATH."""
    directory.mkdir()
    for name in STUBS:
        path = directory / name
        refusal = f'echo "{name}: refused by doctor rehearse" >&2; exit 1'
        end = "exit 0" if name in PRETEND else refusal
        path.write_text(
            f"#!/bin/sh\nprintf '%s\\n' \"{name} $*\" >> {shlex.quote(str(calls))}\n{end}\n"
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

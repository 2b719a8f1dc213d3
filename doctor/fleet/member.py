"""Which node this is, of how many, and where the first one can be reached."""

from __future__ import annotations

import re
import subprocess
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from doctor._util.errors import UserError
from doctor.collect.launcher import read_launcher
from doctor.facts.launched import Launched, Launcher

MOST_NODES = 100_000
FIRST_PORT, PORTS = 20_000, 10_000
"""Below Linux's ephemeral ports, which begin at 32,768: those are taken at random."""
SCONTROL_SECONDS = 10.0
TASKS: dict[Launcher, tuple[str, str, str]] = {
    "slurm": ("srun", "SLURM_STEP_TASKS_PER_NODE", "srun --ntasks-per-node=1"),
    "torchrun": ("torchrun", "LOCAL_WORLD_SIZE", "torchrun --nproc-per-node 1"),
    "openmpi": ("mpirun", "OMPI_COMM_WORLD_LOCAL_SIZE", "mpirun --map-by ppr:1:node"),
}
"""Launcher -> its command, the variable with the tasks on a node, and what starts one on each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One node of a fleet."""

    launcher: Launcher = "flags"
    rank: int = 0
    nodes: int = 1
    names: tuple[str, ...] = ()
    """Of all nodes, by rank; () if the launcher does not know them."""
    expected: tuple[str, ...] = ()
    """Names that nodes must report under, in any order."""
    address: str = ""
    """Where rank 0 can be reached, "" if nothing says so."""
    port: int = 0
    job: str = ""
    """What tells this meeting from others of the same cluster."""
    restart: int = 0
    """How often the launcher has started this job again."""
    joins_agent: bool = False
    """torchrun's agent already serves a store at this address."""
    named: bool = False
    """The user named the address: then it may be this machine's own."""

    def label(self, rank: int) -> str:
        """The name of a node where it is known, else its number: "gpu-17", "node 3"."""
        return self.names[rank] if rank < len(self.names) else f"node {rank}"


def member_of(
    environ: Mapping[str, str],
    *,
    rank: int | None = None,
    nodes: int | None = None,
    address: str | None = None,
    port: int | None = None,
    names: tuple[str, ...] = (),
) -> Member:
    """This node by its launcher's variables, overridden by flags; alone where nothing says more.

    Raises UserError for two tasks on one node, for what is missing, and for flags that contradict.
    """
    launched = read_launcher(environ)
    member = Member() if launched is None else _launched(launched, environ)
    if launched is None or member.launcher == "kubernetes":  # which does not say how many there are
        _check_both(rank if launched is None else member.rank, nodes or len(names) or None)
    named = len(names) if launched is None or member.launcher == "kubernetes" else 0
    member = replace(
        member,
        rank=member.rank if rank is None else rank,
        nodes=nodes or named or member.nodes,
        expected=names or member.expected,
    )
    if address or port:
        # The agent's store is at the agent's address only.
        own = 0 if member.joins_agent else member.port
        member = replace(
            member,
            address=address or member.address,
            port=port or own,
            joins_agent=False,
            named=bool(address),
        )
    return _checked(member)


def _check_both(rank: int | None, nodes: int | None) -> None:
    if (rank is None) != (nodes is None):
        flag = "--node-rank" if rank is None else "--nodes"
        raise UserError(f"no launcher says which node this is of how many; pass {flag} N, too")


def _checked(member: Member) -> Member:
    if member.nodes > MOST_NODES:
        raise UserError(f"--nodes {member.nodes}: at most {MOST_NODES} are supported")
    if not 0 <= member.rank < member.nodes:
        raise UserError(
            f"node rank {member.rank} is not below the number of nodes, {member.nodes}; ranks are "
            "counted from 0"
        )
    if member.expected and len(member.expected) != member.nodes:
        raise UserError(
            f"--nodes-from names {len(member.expected)} nodes, and the fleet has {member.nodes}"
        )
    if member.nodes > 1 and not member.address:
        raise UserError(
            "nothing says where the first node is; pass --address HOST, the same on every node"
        )
    derived = FIRST_PORT + zlib.crc32(f"{member.job}/{member.restart}".encode()) % PORTS
    return replace(member, port=member.port or derived)


def _launched(launched: Launched, environ: Mapping[str, str]) -> Member:
    """The member as its launcher describes it."""
    _check_tasks(launched, environ)
    member = Member(
        launcher=launched.by, rank=launched.rank or 0, nodes=launched.nodes or 1, job=launched.job
    )
    match launched.by:
        case "torchrun":
            return replace(
                member,
                address=environ.get("MASTER_ADDR", ""),
                port=_number(environ, "MASTER_PORT"),
                restart=_number(environ, "TORCHELASTIC_RESTART_COUNT"),
                joins_agent=environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
            )
        case "slurm":
            names = _slurm_names(environ)
            known = names if len(names) == member.nodes else ()
            return replace(
                member,
                names=known,
                expected=known,
                address=next(iter(names), ""),
                job=f"{launched.job}.{environ.get('SLURM_STEP_ID', '')}",
                restart=_number(environ, "SLURM_RESTART_COUNT"),
            )
        case "openmpi":
            first = environ.get("MASTER_ADDR") or next(iter(_slurm_names(environ)), "")
            return replace(member, address=first)
        case "skypilot":
            addresses = tuple(environ.get("SKYPILOT_NODE_IPS", "").split())
            return replace(
                member,
                names=addresses if len(addresses) == member.nodes else (),
                address=next(iter(addresses), ""),
            )
        case "runpod":
            return replace(member, address=environ.get("PRIMARY_ADDR", ""))
    return replace(member, nodes=member.rank + 1)


def _check_tasks(launched: Launched, environ: Mapping[str, str]) -> None:
    """Raise UserError unless the launcher started one doctor on each node."""
    if launched.by not in TASKS:
        return
    command, variable, instead = TASKS[launched.by]
    if launched.by == "slurm" and "SLURM_STEP_ID" not in environ and (launched.nodes or 1) > 1:
        raise UserError(
            f"a batch script runs on the first of {launched.nodes} nodes only; start doctor fleet "
            f"with {instead}"
        )
    # Slurm writes "2(x3),1": a number of tasks, and how many nodes in a row have it.
    tasks = max(map(int, re.findall(r"(?<![x\d])\d{1,6}", environ.get(variable, "1"))), default=1)
    if tasks > 1:
        raise UserError(
            f"{command} started {tasks} tasks on a node; doctor fleet needs one on each: {instead}"
        )


def _number(environ: Mapping[str, str], variable: str) -> int:
    text = environ.get(variable, "")
    return int(text) if re.fullmatch(r"\d{1,9}", text) else 0


def _slurm_names(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The nodes of a job step, as scontrol expands their list; () if it cannot."""
    nodes = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_JOB_NODELIST")
    if not nodes:
        return ()
    try:
        done = subprocess.run(
            ["scontrol", "show", "hostnames", nodes],  # noqa: S607 - Slurm's own, on its PATH
            capture_output=True,
            text=True,
            timeout=SCONTROL_SECONDS,
            check=True,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ()
    return tuple(done.stdout.split())

"""The flags of every command of `doctor fleet`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from doctor.cli import panels
from doctor.cli.job_options import NUMBER
from doctor.cli.options import FILE, parser
from doctor.job.quantities import parse_seconds


def _rank(text: str) -> int:
    """A whole number from 0. Raises ValueError."""
    if not (text.isascii() and text.isdecimal() and len(text) < 7):
        raise ValueError(f"{text!r} is not the number of a node; the first one is 0")
    return int(text)


def _port(text: str) -> int:
    """A port that a user may open. Raises ValueError."""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else 0
    if not 1024 <= number <= 65535:
        raise ValueError(f"{text!r} is not a port from 1024 to 65535")
    return number


NodesFrom = Annotated[
    str,
    panels.scope(
        "Names of the nodes that must be there: a file or a list such as gpu-[01-16].",
        "--nodes-from",
        metavar="FILE|LIST",
    ),
]


Topology = Annotated[
    Path | None,
    panels.scope(
        "Group nodes by Slurm's topology.conf, or by lines such as rack1: gpu-[01-16].",
        "--topology",
        metavar="FILE",
    ),
]
Ledger = Annotated[
    Path | None,
    panels.facts(
        "A directory of known machines: what failed before is a finding, what fails now is kept.",
        "--ledger",
        metavar="DIRECTORY",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFlags:
    """Which node this is, and how it meets the others. None: the launcher says it."""

    nodes: Annotated[
        int | None,
        panels.fleet("How many nodes there are (default: as the launcher says).", **NUMBER),
    ] = None
    node_rank: Annotated[
        int | None,
        panels.fleet(
            "Number of this node, from 0 (default: as the launcher says).",
            parser=parser(_rank),
            metavar="N",
        ),
    ] = None
    address: Annotated[
        str | None,
        panels.fleet(
            "Name or address of node 0, the same on every node (default: as the launcher says).",
            metavar="HOST",
        ),
    ] = None
    port: Annotated[
        int | None,
        panels.fleet(
            "Port on node 0 (default: derived from the job's id, 20000 to 29999).",
            parser=parser(_port),
            metavar="PORT",
        ),
    ] = None
    nodes_from: NodesFrom = ""
    deadline: Annotated[
        float | None,
        panels.fleet(
            "From the start until all nodes have reported (default: 300).",
            parser=parser(parse_seconds),
            metavar="SECONDS",
        ),
    ] = None
    secret_file: Annotated[
        Path | None,
        panels.fleet(
            "Key of this fleet, which nobody else can read (default: $DOCTOR_FLEET_SECRET).", **FILE
        ),
    ] = None


Collectives = Annotated[
    bool | None,
    panels.fleet(
        "All-reduces of pairs of nodes (default: where there are GPUs).",
        "--collectives/--no-collectives",
    ),
]

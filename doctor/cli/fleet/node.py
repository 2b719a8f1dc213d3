"""One doctor of several, started on each node: it examines its own and meets the others.

Rank 0 prints the report on all of them; the others print one line each.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from doctor._util.units import visible
from doctor.cli.fleet.compare import CompareOptions, expected_nodes
from doctor.collect.background import background
from doctor.collect.interpreter import choose
from doctor.fleet.meeting import GRACE_SECONDS, Gathered
from doctor.fleet.member import Member, member_of
from doctor.fleet.messages import Result, read_key
from doctor.fleet.other_node import Contact, Duty, Other
from doctor.report import terminal

UNKNOWN = 3
RESERVED, MOST_RESERVED = 0.25, 60.0
"""Part of the deadline, and seconds at most, for what the nodes do together: so long before the
deadline rank 0 waits for nobody any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetOptions:
    """How this node meets the others."""

    node_rank: int | None = None
    nodes: int | None = None
    address: str | None = None
    port: int | None = None
    nodes_from: str = ""
    deadline: float = 300.0
    secret_file: Path | None = None
    collectives: bool | None = None
    """None: where the nodes have GPUs."""


@dataclass(frozen=True, slots=True)
class Node:
    """This node, ready to meet the others."""

    member: Member
    key: bytes
    python: str
    name: str
    started: float
    deadline: float
    """Of the monotonic clock."""
    collectives: bool | None = None


def this_node(options: FleetOptions, python: str | None) -> Node:
    """The node by its launcher and the flags. Raises UserError.

    `python`: the training interpreter that the user named.
    """
    started = time.monotonic() - _age()
    expected = expected_nodes(CompareOptions(nodes_from=options.nodes_from))
    member = member_of(
        os.environ,
        rank=options.node_rank,
        nodes=options.nodes,
        address=options.address,
        port=options.port,
        names=expected.names if expected else (),
    )
    return Node(
        member=member,
        key=read_key(options.secret_file, os.environ),
        python=choose(python, os.environ)[0],
        name=_name(member),
        started=started,
        deadline=started + options.deadline,
        collectives=options.collectives,
    )


def _age() -> float:
    """Seconds since this process started: on a busy node imports take a part of the deadline."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        up = float(Path("/proc/uptime").read_text().split()[0])
        return max(0.0, min(60.0, up - int(fields[19]) / os.sysconf("SC_CLK_TCK")))
    except (OSError, ValueError, IndexError):
        return 0.0


def result_deadline(node: Node) -> float:
    """When rank 0 waits for no result any more."""
    return node.deadline - min(RESERVED * (node.deadline - node.started), MOST_RESERVED)


def _name(member: Member) -> str:
    from doctor.collect.launcher import read_launcher

    launched = read_launcher(os.environ)
    named = launched.node if launched else ""
    return visible(named or os.uname().nodename)[:255]


class Talk:
    """This node's conversation with rank 0, from now on."""

    def __init__(self, node: Node, duties: Mapping[str, Duty]) -> None:
        self._node = node
        self._other = Other(node.member, node.name, node.key, node.python, node.deadline, duties)
        self._talking = background(self._other.talk)

    def deliver(self, result: Result) -> bool:
        """Send the result, and stay to the end; whether rank 0 has printed its report."""
        self._other.deliver(result)
        seconds = max(0.0, self._node.deadline + GRACE_SECONDS - time.monotonic()) + 1.0
        with contextlib.suppress(TimeoutError):
            self._talking.result(seconds)
        self._other.stop()
        return bool(self._other.contact.verdict)

    def say(self, text: str) -> None:
        """This node's one line, and what it did not hear."""
        terminal.write(visible(f"{self._node.name}: {text}"), sys.stdout)
        if not self._other.contact.verdict:
            terminal.write(visible(first_unheard(self._node, self._other.contact)), sys.stderr)


def stay(node: Node, result: Result, duties: Mapping[str, Duty], text: str) -> int:
    """Deliver the result at once, carry out orders, say the text; the exit code."""
    talk = Talk(node, duties)
    heard = talk.deliver(result)
    talk.say(text)
    return 0 if heard else UNKNOWN


def first_unheard(node: Node, contact: Contact) -> str:
    """How far this node came with node 0, which has not printed."""
    how = "has its facts, and has not printed" if contact.delivered else "was not reached"
    why = f": {contact.problem}" if contact.problem else ""
    where = f"{node.member.label(0)} ({node.member.address} port {node.member.port})"
    return f"{node.name}: {where} {how} within {node.deadline - node.started:g} s{why}"


def label_of(node: Node, gathered: Gathered, rank: int) -> str:
    """How a report calls a node: the launcher's name, else its own, else its number."""
    if rank == 0:
        return node.name
    hello = gathered.hellos.get(rank)
    return hello.node if hello else node.member.label(rank)

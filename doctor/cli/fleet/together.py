"""What a report says of the meeting of the nodes: who came, and what they did together."""

from __future__ import annotations

from dataclasses import dataclass, field

from doctor._util.units import shown
from doctor.cli.fleet.node import Node, label_of, result_deadline
from doctor.facts.fleet import Clock
from doctor.facts.meeting import Absence, Arrival, Meeting, Pair, Shared
from doctor.fleet.meeting import Gathered


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """What the nodes did together, by rank."""

    clocks: dict[int, Clock] = field(default_factory=dict)
    shared: tuple[Shared, ...] | None = None
    pairs: tuple[Pair, ...] | None = None
    backend: str = ""


def meeting_of(node: Node, gathered: Gathered, together: Together) -> Meeting:
    member = node.member
    absent = [rank for rank in range(1, member.nodes) if rank not in gathered.results]
    return Meeting(
        nodes=member.nodes,
        launcher=member.launcher,
        address=member.address,
        port=member.port,
        deadline=round(result_deadline(node) - node.started, 1),
        authenticated=bool(node.key),
        failed=shown(gathered.failed, 500),
        open_files=gathered.files,
        arrivals=tuple(
            Arrival(
                node=label_of(node, gathered, rank),
                rank=rank,
                source=shown(hello.source, 80),
                interface=shown(hello.interface, 80),
                resolving=hello.resolving,
                connecting=hello.connecting,
            )
            for rank, hello in sorted(gathered.hellos.items())
        ),
        absences=tuple(
            Absence(
                node=label_of(node, gathered, rank),
                rank=rank,
                joined=rank in gathered.hellos,
                reason=shown(gathered.refused.get(rank, ""), 500),
            )
            for rank in absent
        ),
        shared=together.shared,
        backend=together.backend,
        pairs=together.pairs,
    )

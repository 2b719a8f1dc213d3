"""One doctor of several, started on each node: it examines its own and meets the others.

Rank 0 prints the report on all of them; the others print one line each.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from doctor._util.errors import UserError
from doctor._util.units import shown, visible
from doctor.cli.compare import CompareOptions, expected_nodes, judge
from doctor.cli.examination import Record
from doctor.cli.node_files import problems_of
from doctor.cli.options import ConfigFlags
from doctor.collect.children import background
from doctor.collect.interpreter import choose
from doctor.facts.fleet import Clock, NodeSummary, Outcome, Unread
from doctor.facts.meeting import Absence, Arrival, Meeting, Pair, Shared
from doctor.fleet import pairs
from doctor.fleet import summary as summaries
from doctor.fleet.compare import compare, fleet_facts
from doctor.fleet.expected import Expected
from doctor.fleet.meeting import GRACE_SECONDS, Contact, Duty, Gathered, Other, RankZero
from doctor.fleet.member import Member, member_of
from doctor.fleet.messages import Reply, Result, read_key
from doctor.fleet.orders import Orders
from doctor.fleet.shared import look_for, share
from doctor.fleet.summary import summarize
from doctor.report import terminal
from doctor.report.report import FailOn, Report

if TYPE_CHECKING:
    from doctor.report.delivery import OutputOptions

UNKNOWN = 3
DELIVERY_SECONDS = 2.0
"""Before rank 0 ends waiting: a node whose examination is not over by then says so."""
REPORT_SECONDS = 2.0
"""Before the deadline: what the nodes do together ends, so that the report can be printed."""
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


def meet(
    node: Node,
    examine: Callable[[], Report],
    output: OutputOptions,
    flags: Mapping[str, object],
    config: ConfigFlags,
    fail_on: FailOn,
) -> int:
    """Examine this node while it meets the others; print, and return the exit code."""
    examination = background(examine)
    if node.member.rank == 0:
        return _as_rank_zero(node, examination, output, flags, config, fail_on)
    return _as_other(node, examination)


def _as_other(node: Node, examination: Future[Report]) -> int:
    """Deliver what was examined, and stay until rank 0 has printed or the deadline has passed."""
    other = Talk(node, _duties(node, examination))
    own = _outcome(examination, result_deadline(node) - DELIVERY_SECONDS)
    heard = other.deliver(_result(_summary(node, own)))
    other.say(f"not examined: {own}" if isinstance(own, str) else own.verdict_line)
    if isinstance(own, str):
        return UNKNOWN
    return own.exit_code or (0 if heard else UNKNOWN)


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


def _duties(node: Node, examination: Future[Report]) -> dict[str, Duty]:
    """What this node does when rank 0 orders it, after it was examined."""
    member = node.member

    def token(content: msgspec.Raw) -> Reply:
        job = examination.result().facts.job
        return look_for(job.output_dir, content)

    def pair(content: msgspec.Raw) -> Reply:
        return pairs.take_part(node.python, member.address, member.port, content)

    return {"token": token, "pair": pair}


def first_unheard(node: Node, contact: Contact) -> str:
    """How far this node came with node 0, which has not printed."""
    how = "has its facts, and has not printed" if contact.delivered else "was not reached"
    why = f": {contact.problem}" if contact.problem else ""
    where = f"{node.member.label(0)} ({node.member.address} port {node.member.port})"
    return f"{node.name}: {where} {how} within {node.deadline - node.started:g} s{why}"


def _outcome(examination: Future[Report], deadline: float) -> Report | str:
    """The report on this node, or in one line why there is none."""
    try:
        return examination.result(max(0.0, deadline - time.monotonic()))
    except TimeoutError:
        return "the examination did not end before the deadline"
    except UserError as error:
        return str(error)


def _summary(node: Node, own: Report | str) -> NodeSummary | str:
    """What this node sends of its own report, under its launcher's name."""
    if isinstance(own, str):
        return own
    outcome: Outcome = str(own.outcome)  # type: ignore[assignment]
    summary = summaries.check(summarize(own.facts, outcome, tuple(problems_of(own))))
    return msgspec.structs.replace(summary, node=node.name, job=node.member.job)


def _result(outcome: NodeSummary | str) -> Result:
    if isinstance(outcome, str):
        return Result(failed=outcome[:2000])
    return Result(content=msgspec.Raw(summaries.encode(outcome)))


def _as_rank_zero(
    node: Node,
    examination: Future[Report],
    output: OutputOptions,
    flags: Mapping[str, object],
    config: ConfigFlags,
    fail_on: FailOn,
) -> int:
    """Gather the others' results, print the report on all, and let them go."""
    from doctor.report import delivery

    gathered_by = result_deadline(node)
    rank_zero = RankZero(node.member, node.key, node.python, gathered_by)
    gathering = background(rank_zero.gather)
    delivery.prepare(output)
    try:
        own = _outcome(examination, gathered_by)
        try:
            gathered = gathering.result(max(0.0, gathered_by - time.monotonic()) + GRACE_SECONDS)
        except TimeoutError:
            rank_zero.stop()
            gathered = rank_zero.gathered
        together = Together()
        if gathering.done() and gathered.results:
            orders = Orders(rank_zero, node.deadline - REPORT_SECONDS)
            together = _together(node, own, gathered, orders)
        report = _fleet_report(node, own, gathered, together, flags, config, fail_on)
        code = delivery.deliver(report, output)
        if gathering.done():
            rank_zero.finish(report.headline, node.deadline)
        return code
    finally:
        rank_zero.stop()
        rank_zero.end()


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """What the nodes did together, by rank."""

    clocks: dict[int, Clock] = field(default_factory=dict)
    shared: tuple[Shared, ...] | None = None
    pairs: tuple[Pair, ...] | None = None
    backend: str = ""


def _together(node: Node, own: Report | str, gathered: Gathered, orders: Orders) -> Together:
    """The clocks, the directories and the pairs, as far as the time suffices."""
    member = node.member
    clocks = orders.clocks()
    labels = {rank: label_of(node, gathered, rank) for rank in (0, *orders.ranks)}
    job = None if isinstance(own, str) else own.facts.job
    directory = job.output_dir if job else None
    shared = None if directory is None else (share(orders, labels, directory),)
    backend = "nccl" if not isinstance(own, str) and own.facts.target.on_cuda else "gloo"
    wanted = backend == "nccl" if node.collectives is None else node.collectives
    if not wanted:
        return Together(clocks=clocks, shared=shared)
    host = member.address if member.joins_agent or member.named else "127.0.0.1"
    done = pairs.run_pairs(orders, labels, node.python, host, member.port, backend)
    return Together(clocks=clocks, shared=shared, pairs=done, backend=backend)


def _fleet_report(
    node: Node,
    own: Report | str,
    gathered: Gathered,
    together: Together,
    flags: Mapping[str, object],
    config: ConfigFlags,
    fail_on: FailOn,
) -> Report:
    member = node.member
    results = {
        0: _summary(node, own),
        **{rank: _opened(each) for rank, each in gathered.results.items()},
    }
    nodes = [
        msgspec.structs.replace(each, rank=rank, clock=together.clocks.get(rank))
        for rank, each in results.items()
        if isinstance(each, NodeSummary)
    ]
    failed = {rank: each for rank, each in results.items() if isinstance(each, str)}
    unread = [
        Unread(file=label_of(node, gathered, rank), reason=why) for rank, why in failed.items()
    ]
    expected = Expected(count=member.nodes, names=member.expected)
    fleet = compare(nodes, expected, unread=unread)
    fleet = msgspec.structs.replace(
        fleet, meeting=meeting_of(node, gathered, together), origin="live"
    )
    seconds = time.monotonic() - node.started
    examination = Record(time.time() - seconds).close()
    return judge(fleet_facts(fleet, seconds, examination), flags, config, fail_on)


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


def label_of(node: Node, gathered: Gathered, rank: int) -> str:
    """How a report calls a node: the launcher's name, else its own, else its number."""
    if rank == 0:
        return node.name
    hello = gathered.hellos.get(rank)
    return hello.node if hello else node.member.label(rank)


def _opened(result: Result) -> NodeSummary | str:
    """A node's summary, or why there is none."""
    if result.failed:
        return shown(result.failed, 500)
    try:
        return summaries.decode(bytes(result.content))
    except ValueError as error:
        return str(error)

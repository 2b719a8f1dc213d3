"""`doctor fleet run`: each node is examined while the nodes meet; rank 0 reports on all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

import msgspec

from doctor._util.errors import UserError
from doctor._util.units import shown
from doctor.cli.fleet.compare import groups_of
from doctor.cli.fleet.node import UNKNOWN, Node, Talk, label_of, result_deadline
from doctor.cli.fleet.node_files import outcome_of, problems_of
from doctor.cli.fleet.run_report import REPORT_SECONDS, Judging, detailed, fleet_of, report_of
from doctor.cli.fleet.together import Together
from doctor.collect.background import background
from doctor.facts.fleet import NodeSummary
from doctor.fleet import pairs
from doctor.fleet import summary as summaries
from doctor.fleet.details import tell
from doctor.fleet.meeting import GRACE_SECONDS, Gathered, RankZero
from doctor.fleet.messages import Reply, Result
from doctor.fleet.orders import Orders, opened, order, reply
from doctor.fleet.other_node import Duty
from doctor.fleet.repeats import settled
from doctor.fleet.shared import look_for, share
from doctor.fleet.summary import rates, summarize
from doctor.report.report import Report

if TYPE_CHECKING:
    from doctor.report.delivery import OutputOptions

DELIVERY_SECONDS = 2.0
"""Before rank 0 ends waiting: a node whose examination is not over by then says so."""
ROUND_SECONDS, PAIRS_SECONDS = 30.0, 20.0
"""For one further measurement, and what is left of the deadline for the pairs of nodes."""


def meet(
    node: Node,
    examine: Callable[[], Report],
    measure: Callable[[], Report],
    output: OutputOptions,
    judging: Judging,
) -> int:
    """Examine this node while it meets the others; print, and return the exit code.

    `measure` examines again what is measured under load. Raises UserError.
    """
    if node.member.rank:
        return _as_other(node, background(examine), measure)
    groups = groups_of(judging.options.topology)
    return _as_rank_zero(node, background(examine), measure, output, judging, groups)


def _as_other(node: Node, examination: Future[Report], measure: Callable[[], Report]) -> int:
    """Deliver what was examined, and stay until rank 0 has printed or the deadline has passed."""
    other = Talk(node, _duties(node, examination, measure))
    own = _outcome(examination, result_deadline(node) - DELIVERY_SECONDS)
    heard = other.deliver(_result(_summary(node, own)))
    other.say(f"not examined: {own}" if isinstance(own, str) else own.verdict_line)
    if isinstance(own, str):
        return UNKNOWN
    return own.exit_code or (0 if heard else UNKNOWN)


def _duties(
    node: Node, examination: Future[Report], measure: Callable[[], Report]
) -> dict[str, Duty]:
    """What this node does when rank 0 orders it, after it was examined."""
    member = node.member

    def token(content: msgspec.Raw) -> Reply:
        job = examination.result().facts.job
        return look_for(job.output_dir, content)

    def pair(content: msgspec.Raw) -> Reply:
        return pairs.take_part(node.python, member.address, member.port, content)

    def again(content: msgspec.Raw) -> Reply:
        return reply(_rates(measure))

    def values(content: msgspec.Raw) -> Reply:
        return tell(examination.result().facts, content)

    return {"token": token, "pair": pair, "rates": again, "values": values}


def _rates(measure: Callable[[], Report]) -> dict[str, float]:
    """Metric -> the rate of a further measurement."""
    return {metric: rate for metric, (rate, _) in rates(measure().facts).items()}


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
    summary = summaries.check(summarize(own.facts, outcome_of(own), tuple(problems_of(own))))
    return msgspec.structs.replace(summary, node=node.name, job=node.member.job)


def _result(outcome: NodeSummary | str) -> Result:
    if isinstance(outcome, str):
        return Result(failed=outcome[:2000])
    return Result(content=msgspec.Raw(summaries.encode(outcome)))


def _as_rank_zero(
    node: Node,
    examination: Future[Report],
    measure: Callable[[], Report],
    output: OutputOptions,
    judging: Judging,
    groups: Mapping[str, str],
) -> int:
    """Gather the others' results, print the report on all, and let them go."""
    from doctor.report import delivery

    gathered_by = result_deadline(node)
    with RankZero(node.member, node.key, node.python, gathered_by) as rank_zero:
        gathering = background(rank_zero.gather)
        delivery.prepare(output)
        own = _outcome(examination, gathered_by)
        try:
            gathered = gathering.result(max(0.0, gathered_by - time.monotonic()) + GRACE_SECONDS)
        except TimeoutError:
            rank_zero.stop()
            gathered = rank_zero.gathered
        together, results, orders = Together(), _results(node, own, gathered), None
        if gathering.done() and gathered.results:
            orders = Orders(rank_zero, node.deadline - REPORT_SECONDS)
            results |= _settled(results, orders, measure)
            together = _together(node, own, gathered, orders)
        facts = None if isinstance(own, str) else own.facts
        fleet, nodes = fleet_of(node, results, gathered, together, groups)
        fleet = detailed(fleet, nodes, orders, facts)
        report = report_of(node, fleet, nodes, judging)
        code = delivery.deliver(report, output)
        if gathering.done():
            rank_zero.finish(report.headline, node.deadline)
        return code


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


def _results(node: Node, own: Report | str, gathered: Gathered) -> dict[int, NodeSummary | str]:
    """What each node reported, or why it is not examined."""
    found = {rank: _opened(each) for rank, each in gathered.results.items()}
    return {
        rank: each if isinstance(each, str) else msgspec.structs.replace(each, rank=rank)
        for rank, each in {0: _summary(node, own), **found}.items()
    }


def _settled(
    results: Mapping[int, NodeSummary | str], orders: Orders, measure: Callable[[], Report]
) -> dict[int, NodeSummary]:
    """The nodes by rank; those that seem slow, and controls beside them, are measured again."""
    last = orders.deadline - PAIRS_SECONDS

    def again(nodes: Sequence[NodeSummary]) -> dict[str, dict[str, float]] | None:
        seconds = min(ROUND_SECONDS, last - time.monotonic())
        if seconds <= 0:
            return None
        end = time.monotonic() + seconds
        asked = {each.rank: each.node for each in nodes if each.rank is not None}
        own = background(lambda: _rates(measure)) if 0 in asked else None
        replies = orders.ask({rank: order("rates", None) for rank in asked if rank}, seconds)
        found = {asked[rank]: opened(each, dict[str, float]) for rank, each in replies.items()}
        if own is not None:
            found[asked[0]] = _waited(own, end - time.monotonic())
        return None if None in found.values() else found

    nodes = [each for each in results.values() if isinstance(each, NodeSummary)]
    return {each.rank or 0: each for each in settled(nodes, again)}


def _waited(rates: Future[dict[str, float]], seconds: float) -> dict[str, float] | None:
    try:
        return rates.result(max(0.0, seconds))
    except (TimeoutError, UserError):
        return None


def _opened(result: Result) -> NodeSummary | str:
    """A node's summary, or why there is none."""
    if result.failed:
        return shown(result.failed, 500)
    try:
        return summaries.decode(bytes(result.content))
    except ValueError as error:
        return str(error)

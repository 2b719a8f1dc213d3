"""The report of `doctor fleet run`: what the nodes sent, compared and judged."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from doctor.cli.examination import Record
from doctor.cli.fleet.compare import CompareOptions, judge
from doctor.cli.fleet.node import Node, label_of
from doctor.cli.fleet.together import Together, meeting_of
from doctor.cli.ledger import with_ledger_within
from doctor.cli.options import ConfigFlags
from doctor.facts.facts import Facts
from doctor.facts.fleet import Fleet, NodeSummary, Unread
from doctor.fleet.compare import compare, fleet_facts
from doctor.fleet.details import fetch, wanted, with_details
from doctor.fleet.expected import Expected
from doctor.fleet.meeting import Gathered
from doctor.fleet.orders import Orders
from doctor.report.report import FailOn, Report

REPORT_SECONDS = 2.0
"""Before the deadline: what the nodes do together ends, so that the report can be printed."""
LEDGER_SECONDS, LONGEST_LEDGER = 1.0, 30.0
"""For the ledger, at the deadline and before it: a directory on shared storage may not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """How a comparison is judged, and what node 0 knows beside it."""

    flags: Mapping[str, object]
    config: ConfigFlags
    fail_on: FailOn
    options: CompareOptions


def fleet_of(
    node: Node,
    results: Mapping[int, NodeSummary | str],
    gathered: Gathered,
    together: Together,
    groups: Mapping[str, str],
) -> tuple[Fleet, list[NodeSummary]]:
    """The comparison and its nodes. `results`: summaries by rank, or why there is none."""
    nodes = [
        msgspec.structs.replace(each, clock=together.clocks.get(rank))
        for rank, each in results.items()
        if isinstance(each, NodeSummary)
    ]
    unread = [
        Unread(file=label_of(node, gathered, rank), reason=each)
        for rank, each in results.items()
        if isinstance(each, str)
    ]
    expected = Expected(count=node.member.nodes, names=node.member.expected)
    fleet = compare(nodes, expected, unread=unread, groups=groups, live=True)
    return msgspec.structs.replace(fleet, meeting=meeting_of(node, gathered, together)), nodes


def detailed(
    fleet: Fleet, nodes: Sequence[NodeSummary], orders: Orders | None, own: Facts | None
) -> Fleet:
    """The comparison, with what differs in values that the nodes sent as hashes."""
    asked = wanted(fleet, nodes)
    if orders is None or not asked:
        return fleet
    ranks: dict[str, int] = {}
    for each in nodes:
        ranks.setdefault(each.node, each.rank or 0)
    return with_details(fleet, nodes, fetch(orders, ranks, own, asked))


def report_of(node: Node, fleet: Fleet, nodes: Sequence[NodeSummary], judging: Judging) -> Report:
    """The report on all nodes. A ledger is asked and written within the deadline."""
    options = judging.options
    notes: tuple[str, ...] = ()
    if options.ledger is not None:
        left = node.deadline - REPORT_SECONDS - time.monotonic()
        seconds = max(LEDGER_SECONDS, min(LONGEST_LEDGER, left))
        fleet, notes = with_ledger_within(
            seconds, fleet, nodes, options.ledger, keep_names=options.keep_names
        )
    seconds = time.monotonic() - node.started
    facts = fleet_facts(fleet, seconds, Record(time.time() - seconds).close())
    report = judge(facts, judging.flags, judging.config, judging.fail_on)
    return replace(report, notes=report.notes + notes)

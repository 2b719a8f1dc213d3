"""The comparison of nodes: summaries in, the section `fleet` of the facts out."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from doctor.facts.facts import Facts, without_machine
from doctor.facts.fleet import (
    Changed,
    Difference,
    Fleet,
    Known,
    NodeLine,
    NodeProblem,
    NodeSummary,
    Problems,
    Unread,
)
from doctor.facts.machine import Examination
from doctor.fleet.differences import compared, differences, doubled, explained
from doctor.fleet.expected import NOT_STATED, Expected, missing
from doctor.fleet.stragglers import analyse
from doctor.job.job import Job
from doctor.job.run_options import RunOptions

COMPARED = "recorded by doctor compare"
ORDER = ("fail", "unknown", "warn")


def compare(
    nodes: Sequence[NodeSummary],
    expected: Expected = NOT_STATED,
    *,
    unread: Iterable[Unread] = (),
    groups: Mapping[str, str] | None = None,
    known: Sequence[Known] | None = None,
    changed: Sequence[Changed] = (),
    since: str = "",
    live: bool = False,
) -> Fleet:
    """What the nodes have in common and what not.

    `unread` are files or nodes that gave no summary, `groups` the switch or rack by node's name,
    `known` what a ledger has on them, `changed` rates of before, `since` the time of the first of
    two files of one machine. Pure, and linear in the nodes: `fleet_facts` makes facts of
    the result, which the checks FLT judge.

    `live`: the nodes can be measured again. Then measure those in `Fleet.again` (candidates and
    controls), append to the rates of their summaries, and compare again until it is empty or
    the time is over; what is not confirmed until then is a note.
    """
    ordered = sorted(nodes, key=_order)
    unlike = tuple(differences(ordered))
    gone, ranks, others = missing(ordered, expected)
    rare = _rare(unlike)
    rates = analyse(ordered, live=live)
    index = {each.classed: number for number, each in enumerate(rates.classes)}
    return Fleet(
        nodes=tuple(_line(node, index, groups or {}, rare) for node in ordered),
        expected=len(expected.names) or expected.count,
        missing=gone,
        missing_ranks=ranks,
        unexpected=others,
        unread=tuple(unread),
        doubled=() if since else tuple(doubled(ordered)),
        problems=tuple(_problems(ordered)),
        differences=unlike,
        compared=compared(ordered),
        classes=tuple(explained(each, unlike) for each in rates.classes),
        slow=rates.slow,
        again=rates.again,
        metrics=rates.metrics,
        known=None if known is None else tuple(known),
        changed=tuple(changed),
        since=since,
        drain=_drain(ordered),
        origin="live" if live else "files",
    )


def fleet_facts(
    fleet: Fleet, seconds: float = 0.0, examination: Examination | None = None
) -> Facts:
    """Facts of several nodes; `doctor.catalog.lookup("FLT")` judges them."""
    return without_machine(
        "doctor compare compares nodes; it does not examine this machine",
        origin=COMPARED,
        examination=examination,
        job=Job(device="cpu"),
        options=RunOptions(smoke=False),
        fleet=fleet,
        seconds=seconds,
    )


def _order(node: NodeSummary) -> tuple[int, str, str]:
    return (node.rank if node.rank is not None else 2**31), node.node, node.file


def _rare(unlike: Sequence[Difference]) -> Counter[str]:
    """Node -> values that it has with a minority."""
    return Counter(
        node for each in unlike for group in each.groups[1:] for node in set(group.nodes)
    )


def _line(
    node: NodeSummary, index: Mapping[str, int], groups: Mapping[str, str], rare: Counter[str]
) -> NodeLine:
    failed = tuple(each.code for each in node.problems if each.status == "fail")
    blocking = tuple(each.code for each in node.problems if each.status == "unknown")
    return NodeLine(
        node=node.node,
        rank=node.rank,
        outcome=node.outcome,
        codes=failed or (blocking if node.outcome == "unknown" else ()),
        kind=index.get(node.classed),
        group=groups.get(node.node, ""),
        differs=rare[node.node],
        clock=node.clock,
    )


def _drain(nodes: Sequence[NodeSummary]) -> Literal["slurm", "kubernetes", ""]:
    """The launcher of these two that started most nodes."""
    counts = Counter(node.launcher for node in nodes)
    if not counts["slurm"] and not counts["kubernetes"]:
        return ""
    return "slurm" if counts["slurm"] >= counts["kubernetes"] else "kubernetes"


def _problems(nodes: Sequence[NodeSummary]) -> list[Problems]:
    """Findings of the nodes' own checks, by check and status."""
    found: dict[tuple[str, str], list[tuple[str, NodeProblem]]] = defaultdict(list)
    for node in nodes:
        for problem in node.problems:
            found[problem.status, problem.code].append((node.node, problem))
    ordered = sorted(
        found.items(), key=lambda item: (ORDER.index(item[0][0]), -len(item[1]), item[0][1])
    )
    return [
        Problems(
            code=code,
            status=which[0][1].status,
            summary=which[0][1].summary,
            nodes=tuple(dict.fromkeys(node for node, _ in which)),
        )
        for (_, code), which in ordered
    ]

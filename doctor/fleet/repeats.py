"""Measurements that are repeated: by nodes that run, by files of one node, or at two times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import msgspec

from doctor.facts.fleet import Changed, NodeSummary
from doctor.fleet.stragglers import analyse

MOST_ROUNDS = 16
"""Measurements of one node; the least number that excludes chance is seldom above six."""
Measure = Callable[[Sequence[NodeSummary]], Mapping[str, Mapping[str, float]] | None]
"""Measures nodes at the same time: name -> metric -> rate. None where one of them did not answer: a
later measurement is judged beside controls of the same moment."""


def settled(nodes: Sequence[NodeSummary], measure: Measure) -> Sequence[NodeSummary]:
    """The nodes with as many measurements as it takes to tell slow ones from chance."""
    for _ in range(MOST_ROUNDS):
        again = set(analyse(nodes, live=True).again)
        if not again:
            break
        rates = measure([node for node in nodes if node.node in again])
        if rates is None:
            break
        nodes = [_extended(node, rates.get(node.node, {})) for node in nodes]
    return nodes


def _extended(node: NodeSummary, rates: Mapping[str, float]) -> NodeSummary:
    """The node with one more measurement of each metric that it had before."""
    more = {
        metric: (*values, rates[metric]) if metric in rates else values
        for metric, values in node.rates.items()
    }
    return msgspec.structs.replace(node, rates=more)


def merged(nodes: Sequence[NodeSummary]) -> list[NodeSummary]:
    """The nodes, with the rates of all files of one node in the latest of them.

    Files are of one node where name, GPUs and rank are equal and each was started at another time;
    otherwise a node is there twice, which is a finding.
    """
    by_node: dict[tuple[str, tuple[str, ...]], list[NodeSummary]] = defaultdict(list)
    for node in nodes:
        by_node[node.node, tuple(sorted(node.uuids))].append(node)
    return [each for same in by_node.values() for each in _merged(same)]


def _merged(same: list[NodeSummary]) -> list[NodeSummary]:
    started = {node.started for node in same}
    ranks = {node.rank for node in same}
    if len(same) < 2 or len(started) < len(same) or "" in started or len(ranks) > 1:
        return same
    ordered = sorted(same, key=lambda node: node.started)
    rates: dict[str, tuple[float, ...]] = {}
    for node in ordered:
        for metric, values in node.rates.items():
            rates[metric] = (*rates.get(metric, ()), *values)
    return [msgspec.structs.replace(ordered[-1], rates=rates)]


def two_times(nodes: Sequence[NodeSummary]) -> tuple[NodeSummary, NodeSummary] | None:
    """The earlier and the later one, where there are two files of one machine and no others."""
    if len(nodes) != 2 or not all(node.started for node in nodes):
        return None
    earlier, later = sorted(nodes, key=lambda node: node.started)
    same = earlier.node == later.node or (earlier.uuids and earlier.uuids == later.uuids)
    return (earlier, later) if same and earlier.started != later.started else None


def named_by_time(node: NodeSummary) -> NodeSummary:
    """The node under the time at which it was examined."""
    time = node.started.replace("T", " ").removesuffix("Z")
    return msgspec.structs.replace(node, node=time, rank=None)


def changes(earlier: NodeSummary, later: NodeSummary, since: str) -> list[Changed]:
    """Each rate that both have."""
    return [
        Changed(
            node=later.node, metric=metric, before=values[-1], now=now[-1], since=since or "before"
        )
        for metric, values in earlier.rates.items()
        if values and (now := later.rates.get(metric, ()))
    ]

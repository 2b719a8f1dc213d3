"""Several files of one node: measurements that were repeated, or two times of one machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from doctor.facts.fleet import Changed, NodeSummary


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

"""What is not the same on all nodes, by value."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from doctor._util.units import listed
from doctor.facts.fleet import Difference, Doubled, Group, NodeClass, NodeSummary, Spread, Topic

TOPICS: tuple[Topic, ...] = ("hardware", "software", "variables", "network", "limits", "files")
UNSET: tuple[Topic, ...] = ("variables",)
"""Topics in which a missing value is one of its own: a variable that is not set."""
CHANGED_LINES = 6
ALIKE = 0.9
"""Share of two sets of nodes that is common to both: then the one explains the other."""
MOST_GROUPS = 50
"""Values of one thing that are kept: one that differs everywhere is an identity, no setting."""


def differences(nodes: Sequence[NodeSummary]) -> Iterator[Difference]:
    """Everything that has at least two values, in the order of the topics."""
    for topic in TOPICS:
        tables = [(node.node, node.compared.get(topic)) for node in nodes]
        names = dict.fromkeys(name for _, table in tables if table for name in table)
        for name in names:
            if (found := _difference(topic, name, tables)) is not None:
                yield found


def _difference(
    topic: Topic, name: str, tables: list[tuple[str, dict[str, str] | None]]
) -> Difference | None:
    by_value: dict[str | None, list[str]] = defaultdict(list)
    unset = "" if topic in UNSET else None
    for node, table in tables:
        by_value[table.get(name, unset) if table is not None else None].append(node)
    unread = by_value.pop(None, [])
    if len(by_value) < 2:
        return None
    ordered = sorted(by_value.items(), key=lambda item: (-len(item[1]), str(item[0])))
    groups = [
        Group(value=str(value), count=len(names), nodes=() if number == 0 else tuple(names))
        for number, (value, names) in enumerate(ordered[:MOST_GROUPS])
    ]
    if rest := [node for _, names in ordered[MOST_GROUPS:] for node in names]:
        groups.append(Group(value="other values", count=len(rest), nodes=tuple(rest)))
    return Difference(topic=topic, name=name, groups=tuple(groups), unread=len(unread))


def compared(nodes: Sequence[NodeSummary]) -> dict[Topic, int]:
    """Topic -> things that at least two nodes have."""
    counts: dict[Topic, dict[str, int]] = {topic: {} for topic in TOPICS}
    for node in nodes:
        for topic, table in node.compared.items():
            for name in table:
                counts[topic][name] = counts[topic].get(name, 0) + 1
    return {topic: sum(n > 1 for n in names.values()) for topic, names in counts.items() if names}


def doubled(nodes: Sequence[NodeSummary]) -> Iterator[Doubled]:
    """Names, GPUs and network addresses that several nodes have."""
    names: dict[str, list[str]] = defaultdict(list)
    for node in nodes:
        names[node.node].append(_instance(node))
    twice = {name for name, which in names.items() if len(which) > 1}
    for name in sorted(twice):
        yield Doubled(what="node", value=name, nodes=tuple(names[name]))
    yield from _shared("GPU", [(node.node, node.uuids) for node in nodes], twice)
    yield from _shared("network address", [(node.node, node.addresses) for node in nodes], twice)


def _shared(
    what: Literal["GPU", "network address"],
    owned: list[tuple[str, tuple[str, ...]]],
    twice: set[str],
) -> Iterator[Doubled]:
    """What several nodes have, apart from nodes that are there twice with all they have."""
    owners: dict[str, list[str]] = defaultdict(list)
    for node, devices in owned:
        for device in devices:
            owners[device].append(node)
    for device, where in owners.items():
        if len(where) > 1 and not set(where) <= twice:
            yield Doubled(what=what, value=device, nodes=tuple(where))


def _instance(node: NodeSummary) -> str:
    """What distinguishes two nodes of one name."""
    if node.rank is not None:
        return f"rank {node.rank}"
    return node.file or node.host or node.started or "another"


SERIOUS: dict[Topic, tuple[str, ...]] = {
    "software": ("torch", "CUDA of torch", "NCCL", "Python", "ROCm of torch"),
    "network": ("active ports",),
    "files": ("",),
}
"""Names whose difference stops a job, or gives it other results; "" for all of a topic."""


def is_serious(each: Difference) -> bool:
    """Whether it stops a job; of the hardware another number of GPUs of the same model does."""
    if each.topic == "hardware":
        models = {group.value.partition(" × ")[2] for group in each.groups}
        return each.name == "GPUs" and len(models) == 1
    serious = SERIOUS.get(each.topic, ())
    return each.name in serious or "" in serious


def explained(each: NodeClass, unlike: Sequence[Difference]) -> NodeClass:
    """The class with what else divides its nodes like its speeds do, where two speeds were found.

    Nine of ten nodes of the smaller group must have a value of their own, and nobody else.
    """
    spreads = tuple(
        msgspec.structs.replace(spread, explained=_reason(spread, unlike))
        if spread.groups
        else spread
        for spread in each.spreads
    )
    return msgspec.structs.replace(each, spreads=spreads)


def _reason(spread: Spread, unlike: Sequence[Difference]) -> str:
    if not spread.groups:
        return ""
    small = set(spread.groups[-1].nodes)
    for difference in unlike:
        for group in difference.groups[1:]:
            common = len(small & set(group.nodes))
            if common >= ALIKE * max(len(small), group.count):
                return f"{difference.name}: {group.value} / {difference.groups[0].value}"
    return ""


def changed_lines(usual: str, other: str) -> str:
    """Which lines of a long value differ: "+numpy==2.1.0, -numpy==2.0.0 and 3 more"."""
    first, second = set(usual.splitlines()), set(other.splitlines())
    more = [f"+{line}" for line in sorted(second - first)]
    less = [f"-{line}" for line in sorted(first - second)]
    return listed(sorted(more + less, key=lambda line: line[1:]), CHANGED_LINES)

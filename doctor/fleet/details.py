"""What differs in values that a summary has as a hash: asked of a node of each group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from doctor._util.secrets import hide_secrets
from doctor.facts.facts import Facts
from doctor.facts.fleet import Difference, Fleet, NodeSummary, Topic
from doctor.fleet.attributes import HASHED, values
from doctor.fleet.differences import changed_lines
from doctor.fleet.messages import Reply
from doctor.fleet.orders import Orders, opened, order, reply

Key = tuple[Topic, str]
"""A compared value: its topic and its name."""
Texts = Mapping[str, Mapping[Key, str]]
"""Node -> the whole of its values."""
SECONDS = 5.0
"""For the values of all nodes that are asked: they are in their memory."""
MOST_VALUES, LONGEST = 32, 1 << 17
"""Of one node, and characters of each: a list of a thousand packages has 30,000."""


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The values that a node is asked for."""

    keys: tuple[Key, ...]


def wanted(fleet: Fleet, nodes: Sequence[NodeSummary]) -> dict[str, list[Key]]:
    """Node -> the values that must be seen to say what differs: of one node of the two largest
    groups of each value that is a hash.
    """
    found: dict[str, list[Key]] = {}
    for each in fleet.differences:
        for node in _two(each, nodes):
            found.setdefault(node, []).append((each.topic, each.name))
    return {node: keys[:MOST_VALUES] for node, keys in found.items()}


def with_details(fleet: Fleet, nodes: Sequence[NodeSummary], texts: Texts) -> Fleet:
    """The comparison, with which lines of long values differ."""
    return msgspec.structs.replace(
        fleet,
        differences=tuple(_detailed(each, nodes, texts, fleet.since) for each in fleet.differences),
    )


def _detailed(
    each: Difference, nodes: Sequence[NodeSummary], texts: Texts, since: str
) -> Difference:
    """`since`: of two times of one machine the first, which the other is compared with."""
    key: Key = (each.topic, each.name)
    found = [texts.get(node, {}).get(key) for node in _two(each, nodes)]
    usual, other = found if len(found) == 2 else (None, None)
    if usual is None or other is None:
        return each
    if since and since in each.groups[1].nodes:
        usual, other = other, usual
    return msgspec.structs.replace(each, detail=changed_lines(usual, other))


def _two(each: Difference, nodes: Sequence[NodeSummary]) -> tuple[str, ...]:
    """A node of the largest group and one of the next, where one of their values is a hash."""
    two = [group.value for group in each.groups[:2]]
    if not any(value.startswith(HASHED) for value in two):
        return ()
    having: dict[str | None, str] = {}
    for node in nodes:
        having.setdefault(node.compared.get(each.topic, {}).get(each.name), node.node)
    return tuple(having[value] for value in two if value in having)


def texts_of(facts: Facts, keys: Sequence[Key]) -> dict[Key, str]:
    """These values of a node, without secrets."""
    found: dict[Key, str] = {}
    for topic, name, value in values(facts):
        if value is not None and (topic, name) in keys and not value.startswith(HASHED):
            found[topic, name] = hide_secrets(value)[:LONGEST]
    return found


def tell(facts: Facts, content: msgspec.Raw) -> Reply:
    """The values that node 0 asks for, in its order."""
    keys = msgspec.json.decode(content, type=Asked).keys[:MOST_VALUES]
    found = texts_of(facts, keys)
    return reply([found.get(key) for key in keys])


def fetch(
    orders: Orders, ranks: Mapping[str, int], own: Facts | None, asked: Mapping[str, list[Key]]
) -> Texts:
    """The values from the nodes that have them; those of node 0 from its own facts."""
    given = {
        ranks[node]: order("values", Asked(keys=tuple(keys)))
        for node, keys in asked.items()
        if ranks.get(node)
    }
    replies = orders.ask(given, SECONDS) if given else {}
    texts: dict[str, dict[Key, str]] = {}
    for node, keys in asked.items():
        rank = ranks.get(node)
        if rank == 0 and own is not None:
            texts[node] = texts_of(own, keys)
        elif rank in replies and (answer := opened(replies[rank], list[str | None])):
            told = zip(keys, answer, strict=False)
            texts[node] = {key: text for key, text in told if text is not None}
    return texts

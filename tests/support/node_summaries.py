"""Summaries of nodes that are equal but for what a test changes."""

from __future__ import annotations

from typing import Any

import msgspec
from recorded import machines

from doctor.facts.facts import Facts
from doctor.facts.fleet import NodeSummary
from doctor.facts.host import Host
from doctor.fleet.summary import summarize

SHOWN = "h200_torch2.11"


def node_facts(number: int, **sections: Any) -> Facts:
    """Facts of a healthy node, gpu-00 and so on, with its own name and GPUs."""
    facts = machines()[SHOWN]
    assert isinstance(facts.host, Host)
    assert isinstance(facts.gpus, tuple)
    host = msgspec.structs.replace(facts.host, name=f"gpu-{number:02}")
    gpus = tuple(msgspec.structs.replace(gpu, uuid=f"GPU-{number}") for gpu in facts.gpus)
    return facts.with_(**{"host": host, "gpus": gpus} | sections)


def summary(number: int, **fields: Any) -> NodeSummary:
    """The summary of such a node, READY, with these fields in place of its own."""
    return msgspec.structs.replace(summarize(node_facts(number), "ready"), **fields)


def summaries(count: int) -> list[NodeSummary]:
    return [summary(number) for number in range(count)]


def with_value(node: NodeSummary, topic: str, name: str, value: str | None) -> NodeSummary:
    """The node with another value of something that is compared; None: without it."""
    table = {k: v for k, v in node.compared.get(topic, {}).items() if k != name}  # type: ignore[call-overload]
    table |= {} if value is None else {name: value}
    return msgspec.structs.replace(node, compared=node.compared | {topic: table})

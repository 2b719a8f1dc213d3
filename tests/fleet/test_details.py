"""Values that travel as hashes: what differs in them is asked of the nodes, without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from node_summaries import node_facts

from doctor._util.records import Ended
from doctor.facts.data import Data, Lengths, Split
from doctor.facts.facts import Facts
from doctor.facts.fleet import Fleet, NodeSummary
from doctor.facts.host import Host
from doctor.facts.interpreter import Interpreter
from doctor.fleet.attributes import values
from doctor.fleet.compare import compare
from doctor.fleet.details import fetch, tell, texts_of, wanted, with_details
from doctor.fleet.messages import Order, Reply
from doctor.fleet.orders import NO_ANSWER
from doctor.fleet.summary import summarize


def installed(number: int, *packages: str) -> Facts:
    facts = node_facts(number)
    assert isinstance(facts.interpreter, Interpreter)
    every = tuple(f"package-{each}==1.0" for each in range(99))
    return facts.with_(
        interpreter=msgspec.structs.replace(facts.interpreter, installed=(*every, *packages))
    )


class Answering:
    """Orders that each node answers from its facts."""

    def __init__(self, facts: Mapping[int, Facts]) -> None:
        self._facts = facts

    def ask(self, orders: Mapping[int, Order], seconds: float) -> dict[int, Reply]:
        return {
            rank: tell(self._facts[rank], order.content) if rank in self._facts else NO_ANSWER
            for rank, order in orders.items()
        }


def fleet_of(facts: list[Facts]) -> tuple[Fleet, list[NodeSummary]]:
    nodes = [summarize(each, "ready") for each in facts]
    return compare(nodes), nodes


def detail(fleet: Fleet, name: str) -> str:
    return next(each.detail for each in fleet.differences if each.name == name)


def test_the_packages_that_differ_are_asked_of_two_nodes() -> None:
    facts = [
        installed(0, "numpy==2.0.0"),
        installed(1, "numpy==2.0.0"),
        installed(2, "numpy==2.1.0"),
    ]
    fleet, nodes = fleet_of(facts)
    asked = wanted(fleet, nodes)
    assert asked == {"gpu-00": [("software", "packages")], "gpu-02": [("software", "packages")]}
    orders: Any = Answering({2: facts[2]})
    texts = fetch(orders, {"gpu-00": 0, "gpu-02": 2}, facts[0], asked)
    named = with_details(fleet, nodes, texts)
    assert detail(named, "packages") == "-numpy==2.0.0, +numpy==2.1.0"


def test_a_node_that_does_not_answer_leaves_the_hash() -> None:
    facts = [installed(0), installed(1, "numpy==2.1.0")]
    fleet, nodes = fleet_of(facts)
    orders: Any = Answering({})
    texts = fetch(orders, {"gpu-00": 0, "gpu-01": 1}, facts[0], wanted(fleet, nodes))
    assert detail(with_details(fleet, nodes, texts), "packages") == ""


def test_equal_nodes_are_asked_nothing() -> None:
    fleet, nodes = fleet_of([installed(0), installed(1)])
    assert wanted(fleet, nodes) == {}


def test_a_secret_does_not_travel_with_a_long_value() -> None:
    facts = node_facts(0)
    assert isinstance(facts.host, Host)
    secret = "hf_" + "a1B2" * 9
    env = {"UCX_NOTE": f"token={secret} " + "x" * 200}
    facts = facts.with_(host=msgspec.structs.replace(facts.host, env=env))
    found = texts_of(facts, [("variables", "UCX_NOTE")])
    assert "x" * 200 in found["variables", "UCX_NOTE"]
    assert secret not in found["variables", "UCX_NOTE"]


def rows(kind: Any, total: int, ended: Any = "complete") -> dict[str, str | None]:
    lengths = Lengths(p50=1, p95=2, longest=3)
    split = Split(name="train", kind=kind, total=total, ended=ended, lengths=lengths)
    data = Data(target="rows.jsonl", opened=Ended(how="ok"), splits=(split,))
    found = values(node_facts(0).with_(data=data))
    return {name: value for topic, name, value in found if topic == "files"}


def test_rows_of_a_file_are_compared_and_those_of_a_loader_are_not() -> None:
    assert rows("file", 5)["rows of train of rows.jsonl"] == "5"
    assert rows("file", 5) != rows("file", 6)
    assert len(rows("dataset", 5)) - len(rows("dataset", 5, "samples")) == 1
    assert not any("rows.jsonl" in name for name in rows("loader", 5))

"""One node in eight kilobytes: its size, its way over a wire, and hostile ones."""

from __future__ import annotations

import msgspec
import pytest
from node_summaries import node_facts, summary
from recorded import machines

from doctor.facts.fleet import SUMMARY_BYTES, NodeProblem, NodeSummary
from doctor.facts.host import Hca, Host
from doctor.facts.interpreter import Interpreter
from doctor.facts.launched import Launched
from doctor.fleet.summary import decode, encode, summarize


@pytest.mark.parametrize("name", machines())
def test_every_recorded_machine_fits_and_comes_back(name: str) -> None:
    whole = summarize(machines()[name], "ready")
    data = encode(whole)
    assert len(data) <= SUMMARY_BYTES
    assert decode(data) == whole


def test_the_launchers_name_goes_before_the_hosts() -> None:
    launched = Launched(by="slurm", node="n3", rank=3, nodes=4, job="77")
    made = summarize(node_facts(1).with_(launched=launched))
    assert (made.node, made.host, made.rank, made.job) == ("n3", "gpu-01", 3, "77")


@pytest.mark.parametrize("count", [50, 5000])
def test_a_summary_of_many_texts_is_shortened(count: int) -> None:
    facts = node_facts(1)
    host, python = facts.host, facts.interpreter
    assert isinstance(host, Host)
    assert isinstance(python, Interpreter)
    facts = facts.with_(
        host=msgspec.structs.replace(
            host,
            env={f"NCCL_{number}": "x" * 100 for number in range(count)},
            hcas=tuple(Hca(name=f"mlx5_{number}", state="ACTIVE") for number in range(count)),
        ),
        interpreter=msgspec.structs.replace(
            python, installed=tuple(f"package{number}==1.0" for number in range(count))
        ),
    )
    problems = [NodeProblem(code="GPU003", status="fail", summary="y" * 900)] * count
    data = encode(summarize(facts, "fix", problems))
    assert len(data) <= SUMMARY_BYTES
    assert decode(data).node == "gpu-01"
    assert decode(data).outcome == "fix"


def test_a_difference_in_a_hash_is_still_one() -> None:
    facts = node_facts(1)
    python = facts.interpreter
    assert isinstance(python, Interpreter)
    both = [
        summarize(
            facts.with_(interpreter=msgspec.structs.replace(python, installed=("a==1", last)))
        )
        for last in ("b==1", "b==2")
    ]
    first, second = (each.compared["software"]["packages"] for each in both)
    assert first.startswith("sha256:")
    assert first != second


def test_a_secret_in_a_variable_does_not_travel() -> None:
    facts = node_facts(1)
    assert isinstance(facts.host, Host)
    secret = "https://user:hunter2secret@proxy/"
    host = msgspec.structs.replace(facts.host, env={"NCCL_CONF_FILE": secret})
    assert b"hunter2secret" not in encode(summarize(facts.with_(host=host)))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[" * 4000,
        b"\xff" * 100,
        b"x" * (SUMMARY_BYTES + 1),
        msgspec.json.encode({"type": "NodeSummary", "node": "a", "surprise": 1}),
        msgspec.json.encode(NodeSummary(node="a\x1b[2J")),
        msgspec.json.encode(NodeSummary(node="a\u202e")),
        msgspec.json.encode(NodeSummary(node="a", rates={"m": (-1.0,)})),
        b'{"type":"NodeSummary","node":"a","rates":{"m":[1e999]}}',
    ],
)
def test_what_is_no_summary_is_refused_in_one_line(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"summary") as error:
        decode(data)
    assert "\n" not in str(error.value)


def test_several_gpus_give_the_slowest_rate_and_its_number() -> None:
    facts = node_facts(1)
    assert isinstance(facts.load, tuple)
    (load,) = facts.load
    slower = msgspec.structs.replace(
        load, device="cuda:5", matmul={k: v / 2 for k, v in load.matmul.items()}
    )
    made = summarize(facts.with_(load=(load, slower)))
    assert made.slowest["matmul bf16"] == "GPU 5"
    assert made.rates["matmul bf16"] == (load.matmul["bf16"] / 2,)
    assert made.slowest["copy to the GPU"] == "GPU 0" or made.slowest["copy to the GPU"] == "GPU 5"


def test_summaries_of_equal_nodes_are_equal_but_for_their_names() -> None:
    first, second = summary(1), summary(2)
    assert first.compared == second.compared
    assert first.classed == second.classed

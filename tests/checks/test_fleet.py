"""The checks of several nodes: what each says of planted faults, and of none."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from node_summaries import summaries, summary, with_value

from doctor import catalog
from doctor.checks.fleet.members import commands
from doctor.facts.fleet import Clock, NodeLine, NodeProblem, NodeSummary, Unread
from doctor.fleet.compare import compare, fleet_facts
from doctor.fleet.expected import Expected
from doctor.judge.check import Finding, Status
from doctor.judge.engine import examine
from doctor.report.report import Outcome, Report

FLT = catalog.lookup("FLT")


def findings(nodes: list[NodeSummary], *stated: Expected, **known: Any) -> dict[str, Finding]:
    facts = fleet_facts(compare(nodes, *stated, **known))
    return {finding.check.code: finding for finding in examine(FLT, facts)}


def status(code: str, nodes: list[NodeSummary], *stated: Expected, **known: Any) -> Status:
    return findings(nodes, *stated, **known)[code].status


def test_a_fleet_of_equal_nodes_has_no_problem() -> None:
    found = findings(summaries(8), Expected(count=8))
    assert [code for code, each in found.items() if each.is_problem] == []
    assert found["FLT001"].status is Status.PASS


@pytest.mark.parametrize(
    ("stated", "status_", "word"),
    [
        (Expected(names=("gpu-00", "gpu-01", "gpu-02", "gpu-03")), Status.FAIL, "gpu-03"),
        (Expected(count=4), Status.FAIL, "4 required"),
        (Expected(count=2), Status.WARN, "2 expected"),
        (Expected(names=("gpu-00", "gpu-01")), Status.WARN, "gpu-02"),
        (Expected(names=("gpu-00.site.org", "gpu-01", "gpu-02")), Status.PASS, "3 required"),
    ],
)
def test_nodes_that_are_missing_are_named(stated: Expected, status_: Status, word: str) -> None:
    found = findings(summaries(3), stated)["FLT001"]
    assert (found.status, word in found.verdict.summary) == (status_, True)


def test_a_missing_rank_is_named_where_names_are_not_known() -> None:
    nodes = [summary(number, rank=number) for number in (0, 1, 3)]
    found = findings(nodes, Expected(count=4))["FLT001"]
    assert found.status is Status.FAIL
    assert "node rank 2" in found.verdict.summary


def test_a_file_that_cannot_be_read_is_unknown_and_hides_no_missing_node() -> None:
    unread = [Unread(file="gpu-07.json", reason="it is empty")]
    assert status("FLT001", summaries(3), unread=unread) is Status.UNKNOWN
    assert status("FLT001", summaries(3), Expected(count=4), unread=unread) is Status.FAIL


@pytest.mark.parametrize(
    "fields",
    [{"node": "gpu-01"}, {"uuids": ("GPU-1",)}, {"addresses": ("02:00:00:00:00:01",)}],
)
def test_what_appears_twice_fails(fields: dict[str, Any]) -> None:
    nodes = [summary(0), summary(1, addresses=("02:00:00:00:00:01",)), summary(2, **fields)]
    assert status("FLT002", nodes) is Status.FAIL
    assert status("FLT002", nodes[:2]) is Status.PASS


@pytest.mark.parametrize(
    ("outcome", "problem", "expected"),
    [
        ("ready", None, Status.PASS),
        ("ready", "warn", Status.WARN),
        ("fix", "fail", Status.FAIL),
        ("return", "fail", Status.FAIL),
        ("unknown", "unknown", Status.UNKNOWN),
    ],
)
def test_the_verdicts_of_the_nodes(outcome: str, problem: Any, expected: Status) -> None:
    problems = (NodeProblem(code="GPU003", status=problem),) if problem else ()
    nodes = [*summaries(3), summary(9, outcome=outcome, problems=problems)]
    found = findings(nodes)["FLT003"]
    assert found.status is expected
    assert ("gpu-09" in found.verdict.summary) is (problem is not None)


@pytest.mark.parametrize("launcher", ["slurm", "kubernetes"])
@pytest.mark.parametrize(
    "name", ["--all", "-l", "ALL", "all", "n1,n2", "n[1-9]", "$(reboot)", "", "n1\n"]
)
def test_a_name_that_is_more_than_a_name_is_in_no_command(name: str, launcher: Any) -> None:
    fleet = msgspec.structs.replace(compare(summaries(2)), drain=launcher)
    bad, good = NodeLine(node=name, outcome="fix"), NodeLine(node="gpu-1.rack_2", outcome="fix")
    assert commands(fleet, [bad]) == ()
    assert commands(fleet, [bad, good]) == commands(fleet, [good]) != ()
    coded = NodeLine(node="n1", outcome="fix", codes=("GPU003", "$(reboot)"))
    assert "reboot" not in commands(fleet, [coded])[0]


def test_a_node_that_goes_back_makes_the_fleet_return_it() -> None:
    bad = summary(
        7, outcome="return", problems=(NodeProblem(code="GPU003", status="fail"),), launcher="slurm"
    )
    facts = fleet_facts(compare([*summaries(3), bad]))
    report = Report(facts, examine(FLT, facts))
    assert report.outcome is Outcome.RETURN
    assert any("NodeName=gpu-07 State=DRAIN" in c for f in report.faults for c in f.commands)


@pytest.mark.parametrize(
    ("code", "topic", "name", "value", "expected"),
    [
        ("FLT004", "hardware", "power limit", "350 W", Status.WARN),
        ("FLT004", "hardware", "GPUs", "2 × NVIDIA H200", Status.FAIL),
        ("FLT004", "hardware", "GPUs", "1 × NVIDIA A100", Status.WARN),
        ("FLT005", "software", "driver", "570.86.10", Status.WARN),
        ("FLT005", "software", "torch", "2.10.0+cu130", Status.FAIL),
        ("FLT006", "variables", "NCCL_DEBUG", "INFO", Status.WARN),
        ("FLT008", "limits", "ulimit nofile", "64", Status.WARN),
        ("FLT009", "files", "/data/model", "1 bytes in 1 files", Status.FAIL),
    ],
)
def test_a_node_that_differs_is_named(
    code: str, topic: str, name: str, value: str, expected: Status
) -> None:
    nodes = [with_value(node, "limits", "ulimit nofile", "1024") for node in summaries(4)]
    nodes = [with_value(node, "files", "/data/model", "2 bytes in 1 files") for node in nodes]
    assert status(code, nodes) is Status.PASS
    nodes[2] = with_value(nodes[2], topic, name, value)
    found = findings(nodes)[code]
    assert (found.status, "gpu-02" in found.verdict.summary) == (expected, True)


def test_a_node_without_infiniband_fails() -> None:
    nodes = [with_value(node, "network", "active ports", "8") for node in summaries(4)]
    assert status("FLT007", nodes) is Status.PASS
    nodes[1] = with_value(nodes[1], "network", "active ports", "0")
    found = findings(nodes)["FLT007"]
    assert found.status is Status.FAIL
    assert "no active" in found.verdict.summary


@pytest.mark.parametrize("code", ["FLT004", "FLT005", "FLT007", "FLT008"])
def test_what_no_two_nodes_have_is_unknown(code: str) -> None:
    nodes = [msgspec.structs.replace(node, compared={}) for node in summaries(3)]
    assert status(code, nodes) is Status.UNKNOWN


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(0.01, Status.PASS), (-0.3, Status.WARN), (40.0, Status.FAIL), (None, Status.SKIP)],
)
def test_clocks(offset: float | None, expected: Status) -> None:
    clock = None if offset is None else Clock(offset=offset, error=0.001)
    assert status("FLT010", [summary(0), summary(1, clock=clock)]) is expected

"""Slow nodes: found, confirmed, and not invented. benchmarks/stragglers.py has the rates."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import pytest
from noisy_fleets import again, fleet

from doctor import catalog
from doctor.facts.fleet import NodeSummary
from doctor.fleet.compare import compare, fleet_facts
from doctor.fleet.noise import exceeded_by
from doctor.fleet.repeats import settled
from doctor.fleet.stragglers import Analysis, analyse, required
from doctor.judge.check import Finding
from doctor.judge.engine import examine


def named(result: Analysis) -> set[str]:
    return {each.node for each in result.slow if each.confirmed or each.certain}


@pytest.mark.parametrize("count", [4, 16, 64, 512])
@pytest.mark.parametrize("tail", [None, 3.0])
def test_no_healthy_node_is_named_after_one_measurement(count: int, tail: float | None) -> None:
    accused = sum(bool(named(analyse(fleet(count, seed, tail=tail)))) for seed in range(20))
    assert accused <= 1


@pytest.mark.parametrize(("count", "factor"), [(16, 1.5), (64, 1.2), (512, 1.2)])
def test_a_slow_node_is_named_at_once_where_the_noise_is_small(count: int, factor: float) -> None:
    for seed in range(5):
        result = analyse(fleet(count, seed, slowed={(3, 5): factor}))
        assert [(each.node, each.metric) for each in result.slow] == [("n3", "m5")]
        assert result.slow[0].factor == pytest.approx(factor, rel=0.06)
        assert named(result) == {"n3"}


def test_a_candidate_is_confirmed_by_measurements_with_controls() -> None:
    nodes = fleet(16, 1, slowed={(3, 5): 1.12})
    asked: list[set[str]] = []

    def measure(chosen: Sequence[NodeSummary]) -> dict[str, dict[str, float]]:
        names = {node.node for node in chosen}
        asked.append(names)
        measured = again(
            nodes,
            tuple(names),
            len(asked),
            lambda node, m: 1.12 if (node, m) == ("n3", "m5") else 1.0,
        )
        return {
            node.node: {metric: values[-1] for metric, values in node.rates.items()}
            for node in measured
            if node.node in names
        }

    result = analyse(settled(nodes, measure), live=True)
    assert "n3" in asked[0]
    assert len(asked[0]) >= 6  # and controls
    assert [(each.node, each.confirmed) for each in result.slow] == [("n3", True)]


def test_a_candidate_whose_fleet_does_not_answer_is_not_confirmed() -> None:
    nodes = fleet(16, 1, slowed={(3, 5): 1.12})
    result = analyse(settled(nodes, lambda chosen: None), live=True)
    assert [(each.node, each.confirmed) for each in result.slow] == [("n3", False)]


def test_a_candidate_that_is_fast_in_the_second_measurement_is_dropped() -> None:
    nodes = fleet(16, 1, slowed={(3, 5): 1.4})
    first = analyse(nodes, live=True)
    second = analyse(again(nodes, first.again, 7, lambda node, m: 1.0), live=True)
    assert first.slow
    assert second.slow == ()
    assert second.again == ()


def test_what_slows_all_nodes_in_the_meantime_confirms_nobody() -> None:
    nodes = fleet(16, 1, slowed={(3, 5): 1.4})
    first = analyse(nodes, live=True)
    slower = again(nodes, first.again, 7, lambda node, m: 1.5)
    assert analyse(slower, live=True).slow == ()


def test_more_candidates_need_more_measurements() -> None:
    assert required(512, 1, 12) < required(512, 20, 12) < required(512, 100, 12)
    nodes, candidates, metrics = 512, 20, 12
    share = candidates / nodes
    assert metrics * nodes * share ** required(nodes, candidates, metrics) <= 0.01


@pytest.mark.parametrize(("count", "slow"), [(16, 8), (512, 256), (512, 150)])
def test_two_speeds_are_one_finding_about_the_class(count: int, slow: int) -> None:
    slowed = {(node, 2): 1.3 for node in range(slow)}
    result = analyse(fleet(count, 3, slowed=slowed))
    (spread,) = [each for each in result.classes[0].spreads if each.groups]
    assert spread.metric == "m2"
    assert sorted(group.count for group in spread.groups) == sorted([slow, count - slow])
    assert spread.factor == pytest.approx(1.3, rel=0.03)
    assert named(result) == set()


@pytest.mark.parametrize("count", [8, 16, 64, 512])
@pytest.mark.parametrize("tail", [None, 3.0])
def test_one_speed_is_not_divided(count: int, tail: float | None) -> None:
    divided = sum(
        bool(spread.groups)
        for seed in range(15)
        for spread in analyse(fleet(count, seed, tail=tail)).classes[0].spreads
    )
    assert divided <= 1


def test_what_divides_the_nodes_in_the_same_way_is_named() -> None:
    nodes = [
        msgspec.structs.replace(
            node, compared={"software": {"driver": "570" if number < 8 else "580"}}
        )
        for number, node in enumerate(fleet(16, 3, slowed={(node, 2): 1.3 for node in range(8)}))
    ]
    compared = compare(nodes)
    (spread,) = [each for each in compared.classes[0].spreads if each.groups]
    assert "driver" in spread.explained


def test_three_nodes_have_only_floors() -> None:
    (kind,) = analyse(fleet(3, 1, slowed={(0, 0): 3.0})).classes
    assert {spread.bound for spread in kind.spreads} == {None}
    finding = verdict(3, {(0, 0): 3.0})
    assert "only floors" in finding.verdict.summary


def test_a_pass_states_its_sensitivity() -> None:
    assert "95 %" in verdict(64).verdict.summary


def verdict(count: int, slowed: dict[tuple[int, int], float] | None = None) -> Finding:
    facts = fleet_facts(compare(fleet(count, 1, slowed=slowed)))
    (finding,) = examine(catalog.lookup("FLT011"), facts)
    return finding


@pytest.mark.parametrize("count", [16, 128])
@pytest.mark.slow
def test_the_printed_sensitivity_is_found(count: int) -> None:
    """In 93 to 97 % of fleets, give or take the error of 400 tries."""
    hits = tries = 0
    for seed in range(40):
        spreads = analyse(fleet(count, seed)).classes[0].spreads
        for metric in range(10):
            factor = spreads[metric].found
            assert factor is not None
            slowed = analyse(fleet(count, seed, slowed={(metric, metric): factor})).slow
            hits += any(s.node == f"n{metric}" and s.metric == f"m{metric}" for s in slowed)
            tries += 1
    assert 0.91 <= hits / tries <= 0.99


@pytest.mark.parametrize(
    ("freedom", "chance", "value"), [(3.0, 0.01, 4.5407), (10.0, 1e-5, 7.5270)]
)
def test_quantiles_of_students_t(freedom: float, chance: float, value: float) -> None:
    """Against published tables."""
    assert exceeded_by(chance, freedom, unit=1.0) == pytest.approx(value, rel=2e-3)


def test_equal_rates_accuse_nobody() -> None:
    nodes = [
        msgspec.structs.replace(node, rates={"m": (1e12,)}) for node in fleet(16, 1, scatter=0.0)
    ]
    result = analyse(nodes)
    assert result.slow == ()
    assert all(math.isfinite(s.found or math.inf) for c in result.classes for s in c.spreads)

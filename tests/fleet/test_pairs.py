"""Who is paired with whom: three rounds at most, and nobody twice with the same."""

from __future__ import annotations

import time
from concurrent.futures import Future

import pytest

from doctor._util.records import Ended
from doctor.facts.meeting import Pair
from doctor.fleet.meeting import RankZero
from doctor.fleet.member import Member
from doctor.fleet.messages import Result
from doctor.fleet.orders import Orders
from doctor.fleet.pairs import Two, _own_result, next_pairs, run_pairs


def played(two: Two, attempt: int, rate: float | None) -> tuple[Two, Pair]:
    ended = Ended(how="ok" if rate else "timeout")
    wrong = 0 if rate else None
    names = [f"n{rank}" for rank in two]
    return two, Pair(
        first=names[0], second=names[1], attempt=attempt, ended=ended, wrong=wrong, rate=rate
    )


@pytest.mark.parametrize("count", [2, 3, 4, 7, 8])
def test_each_round_has_each_node_once_and_no_pair_again(count: int) -> None:
    done: list[tuple[Two, Pair]] = []
    for attempt in range(2):
        pairs = next_pairs(range(count), done)
        ranks = [rank for two in pairs for rank in two]
        assert len(ranks) == len(set(ranks))
        assert not {two for two, _ in done} & set(pairs)
        done += [played(two, attempt, 1.0 + sum(two)) for two in pairs]
    assert next_pairs(range(count), done) == []  # nothing failed


def test_the_second_round_pairs_fast_nodes_with_slow_ones() -> None:
    first = [played((0, 1), 0, 9.0), played((2, 3), 0, 1.0)]
    assert next_pairs(range(4), first) == [(0, 3), (1, 2)]


def test_nodes_that_failed_are_tried_with_good_ones() -> None:
    first = [played((0, 1), 0, 2.0), played((2, 3), 0, None)]
    second = [played((0, 3), 1, None), played((1, 2), 1, 2.0)]
    assert next_pairs(range(4), first + second) == [(1, 3)]


def test_no_round_begins_without_the_time_for_it() -> None:
    deadline = time.monotonic() + 20.0  # a pair has 30 s
    rank_zero = RankZero(Member(nodes=4), b"", "no-python", deadline)
    rank_zero.gathered.results |= {rank: Result() for rank in (1, 2, 3)}
    labels = {rank: f"n{rank}" for rank in range(4)}
    orders = Orders(rank_zero, deadline)
    found = run_pairs(orders, labels, "no-python", "127.0.0.1", 1, "gloo")
    assert [(pair.first, pair.second) for pair in found] == [("n0", "n1"), ("n2", "n3")]
    assert {pair.ended.how for pair in found} == {"budget"}
    assert found[0].ended.detail.startswith("not tried")


def test_the_own_part_is_waited_for_until_the_deadline() -> None:
    assert _own_result(Future(), time.monotonic(), "gloo").ended.how == "budget"

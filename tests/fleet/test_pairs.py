"""Who is paired with whom: three rounds at most, and nobody twice with the same."""

from __future__ import annotations

import pytest

from doctor._util.records import Ended
from doctor.facts.meeting import Pair
from doctor.fleet.pairs import Two, next_pairs


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

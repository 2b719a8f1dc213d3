"""A loss that is far above where it began, at the end of a training."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from doctor.guard.levels import Level


def causes(losses: Iterable[float], classes: int) -> list[str]:
    level = Level()
    for loss in losses:
        level.add(loss, 1e-3, 1.0)
    return [alarm.cause for alarm in level.alarms(classes, True, level.count)]


@pytest.mark.parametrize(
    ("losses", "classes", "found"),
    [
        ([0.7 * 1.2**n for n in range(80)], 2, ["exploded"]),
        ([0.7 * 1.2**n for n in range(40)], 2, []),  # too few
        ([*(2.3 for _ in range(60)), 900.0], 10, []),  # one spike
        ([0.7 + 0.02 * n for n in range(80)], 2, []),
        ([9.0 for _ in range(80)], 2, []),  # it began there
        ([0.7 * 1.5**n for n in range(60)], 0, ["exploded"]),
        ([1e-9 * 1.5**n for n in range(60)], 0, []),  # near 0 at first: it is small still
        ([50.0 * 10 ** (n // 20) for n in range(80)], 0, []),  # a penalty that is raised
        ([float(n % 7) for n in range(80)], 0, []),
        ([3.0 * 100 ** (n // 20) * 0.9 ** (n % 20) for n in range(120)], 0, []),  # a barrier
        ([3.0 * 1.3**n * (1 + n % 2) for n in range(120)], 0, ["exploded"]),  # to and fro
        ([2.3, 15000.0, *(1000.0 * 0.5**n for n in range(40))], 10, ["leap"]),
        ([2.3, 200.0, *(2.0 for _ in range(40))], 10, []),  # one bad batch
        ([150.0, 9000.0, *(2.0 for _ in range(40))], 10, []),  # a sum over the samples
        ([2.3, 15000.0, *(1000.0 * 0.5**n for n in range(40))], 0, []),  # no classifier
        ([*(2.3 for _ in range(9)), 15000.0, *(2.0 for _ in range(40))], 10, []),  # later
        ([1e9 * 0.99**n if n > 30 else 2.0 for n in range(80)], 0, ["exploded"]),  # once
    ],
)
def test_where_a_loss_ends(losses: list[float], classes: int, found: list[str]) -> None:
    assert causes(losses, classes) == found

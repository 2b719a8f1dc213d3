"""Columns of numbers in which one group of rows, as those of one station, is in another unit.

Only counts, medians and numbers of rows leave this module.
"""

from __future__ import annotations

import math
import re
from statistics import median, quantiles
from typing import Any, Dict, Iterator, List, Tuple

from .columns import number_of
from .relations import relation

MOST_ROWS, MOST_GROUPS, LEAST_GROUPS, LEAST = 20_000, 50, 3, 24
"""Rows that are read; groups of a column; rows of a group. Our own numbers."""
TEMPERATURE = re.compile(r"(?i)temp|celsius|fahrenheit|°|dew_?point|^t_?(air|min|max|avg|mean)")
FACTORS = (10.0, 60.0, 100.0, 1000.0, 3600.0, 1e6)
FAR, NEAR, ALIKE = 1.5, 0.5, 1.6
"""Distance of the median of a group from the nearest other one, in spreads; the same once it is in
their unit; and ratio of its spread to theirs there. Our own numbers."""
SAME = 2.0
"""Ratio of the largest to the smallest median of the other groups, where a factor is judged: groups
that differ anyway tell nothing. Our own number."""


class GroupUnits:
    """Rows of numbers and names; `records` has the groups in another unit."""

    def __init__(self) -> None:
        self._numbers: Dict[str, Dict[int, float]] = {}
        self._names: Dict[str, Dict[str, List[int]]] = {}
        """Column -> value -> rows."""
        self._rows = 0

    def add(self, row: Dict[str, Any], number: int) -> None:
        if self._rows >= MOST_ROWS:
            return
        self._rows += 1
        for name, value in row.items():
            plain = number_of(value)
            if plain is not None and math.isfinite(plain):
                self._numbers.setdefault(str(name), {})[number] = plain
            elif isinstance(value, str) and value:
                groups = self._names.setdefault(str(name), {})
                if len(groups) <= MOST_GROUPS:
                    groups.setdefault(value, []).append(number)

    def records(self) -> List[Dict[str, Any]]:
        found = []
        for by, groups in self._names.items():
            if not LEAST_GROUPS <= len(groups) <= MOST_GROUPS:
                continue
            for column, values in self._numbers.items():
                each = {
                    name: kept
                    for name, at in groups.items()
                    if len(kept := [values[n] for n in at if n in values]) >= LEAST
                }
                found += [
                    relation(kind, len(groups[odd]), sum(map(len, groups.values())), (column, by),
                             groups[odd], numbers)
                    for odd, kind, numbers in odd_units(column, each)
                ]  # fmt: skip
        return found


def odd_units(
    column: str, groups: Dict[str, List[float]]
) -> Iterator[Tuple[str, str, Tuple[float, float]]]:
    """Groups that are in another unit than all others: their name, what is told of them, and the
    medians of both."""
    if len(groups) < LEAST_GROUPS:
        return
    middles = {name: (median(each), spread(each)) for name, each in groups.items()}
    for odd, (middle, width) in middles.items():
        others = [each for name, each in middles.items() if name != odd]
        usual = median(each[1] for each in others)
        medians = [each[0] for each in others]
        if not usual or not width or distance(middle, medians) < FAR * usual:
            continue
        for low, factor in changes(column, medians):
            moved = (middle - low) / factor
            alike = 1 / ALIKE < width / abs(factor) / usual < ALIKE
            if alike and distance(moved, medians) < NEAR * usual:
                kind = "unit of a group" if low or factor < 10 else "scale of a group"
                yield odd, kind, (middle, median(medians))
                break


def changes(column: str, medians: List[float]) -> Iterator[Tuple[float, float]]:
    """What is subtracted, and the divisor behind it, from one unit to another."""
    if TEMPERATURE.search(column):
        yield 32.0, 1.8
        yield -32.0 / 1.8, 1 / 1.8
        yield 273.15, 1.0
        yield -273.15, 1.0
    if min(medians) > 0 and max(medians) < SAME * min(medians):
        for factor in FACTORS:
            yield 0.0, factor
            yield 0.0, 1 / factor


def spread(values: List[float]) -> float:
    low, _, high = quantiles(values, n=4)
    return high - low


def distance(value: float, medians: List[float]) -> float:
    """From the range of the others."""
    return max(min(medians) - value, value - max(medians), 0.0)

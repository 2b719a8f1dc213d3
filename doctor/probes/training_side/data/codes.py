"""Columns of measured features in which one number, far from all others, comes again and again: a
code for what is missing, that was scaled like a measurement."""

from __future__ import annotations

import math
from typing import Any, Dict, List

import torch

from ..foreign import Foreign, containers
from .documents import host
from .relations import relation
from .views import LABELS

MOST_ROWS, MOST_COLUMNS = 4096, 256
LEAST_ROWS, LEAST_DIFFERENT, MOST_PART = 64, 24, 0.5
"""Rows, different other values of a column, and the share of the code above which it is the usual
value. Our own numbers."""
FAR = 1.5
"""Distance of the code from the nearest other value, in ranges of the others: a value of a
distribution lies next to others. Our own number."""
ENDS = 0.01
"""Share of the others at each end that their range leaves out; a few may lie far, too."""
LEAST_AGAIN = 3
FACTORS = (10, 60, 100, 1000, 3600, 1e6)
GAP, SAME_UNIT, LEAST_OF_UNIT = 0.6, 0.1, 8
"""Powers of ten that no value lies in, by which two medians may miss a factor, and different values
of a group. Our own numbers."""


class Codes:
    """Rows of features by field; `records` has the columns with a code."""

    def __init__(self) -> None:
        self._fields: Dict[str, List[torch.Tensor]] = {}
        self._rows = 0

    def add(self, batch: Foreign) -> None:
        if self._rows >= MOST_ROWS:
            return
        named = containers.tensors(batch)
        rows = next((len(each) for each in named.values() if each.dim()), 0)
        self._rows += rows
        for name, each in named.items():
            if not each.is_floating_point() or each.dim() not in (2, 3) or len(each) != rows:
                continue
            if each.shape[-1] <= MOST_COLUMNS and name.split(".")[-1] not in LABELS:
                self._fields.setdefault(name, []).append(host(each).float())

    def records(self) -> List[Dict[str, Any]]:
        found = []
        for name, parts in self._fields.items():
            if len({each.shape[1:] for each in parts}) > 1:
                continue
            whole = torch.cat(parts)
            steps = whole.shape[1] if whole.dim() == 3 else 1
            table = whole.reshape(-1, whole.shape[-1])
            if len(whole) < LEAST_ROWS or (steps > 1 and whole.shape[-1] < 2):
                continue
            for column in range(table.shape[1]):
                values = table[:, column]
                found += coded(name, column, values) or units(name, column, values)
        return found


def units(name: str, column: int, values: torch.Tensor) -> List[Dict[str, Any]]:
    """A record where a column has two groups of values, one of which is the other one in another
    unit: a power of ten, or minutes and hours."""
    values = values[values.isfinite()].double()
    if not len(values) or not bool((values > 0).all()):
        return []
    logs = values.log10().sort().values
    gaps = logs[1:] - logs[:-1]
    at = int(gaps.argmax()) + 1
    groups = (logs[:at], logs[at:])
    if float(gaps.max()) < GAP or min(map(len, groups)) < LEAST_OF_UNIT:
        return []
    if any(len(torch.unique(each)) < LEAST_OF_UNIT for each in groups):
        return []
    factor = float(groups[1].median() - groups[0].median())
    spreads = [float(each.std()) for each in groups]
    if max(spreads) > 2 * min(spreads) or max(spreads) > GAP / 2:
        return []
    if not any(abs(factor - math.log10(each)) < SAME_UNIT for each in FACTORS):
        return []
    fewer = min(map(len, groups))
    return [relation("units differ", fewer, len(values), (name,), (), (column, 10**factor))]


def coded(name: str, column: int, values: torch.Tensor) -> List[Dict[str, Any]]:
    """A record where the lowest or the highest value of a column is a code."""
    values = values[values.isfinite()]
    for end in (values.min(), values.max()) if len(values) else ():
        same = values == end
        again, rest = int(same.sum()), values[~same]
        if again < LEAST_AGAIN or again > MOST_PART * len(values):
            continue
        if len(torch.unique(rest)) < LEAST_DIFFERENT:
            continue
        ordered = rest.sort().values
        cut = int(ENDS * len(ordered))
        inner = ordered[cut : len(ordered) - cut]
        nearest = float((rest - end).abs().min())
        if nearest > FAR * float(inner[-1] - inner[0]) > 0:
            return [relation("code in column", again, len(values), (name,), (),
                             (column, float(end), float(inner[0]), float(inner[-1])))]  # fmt: skip
    return []

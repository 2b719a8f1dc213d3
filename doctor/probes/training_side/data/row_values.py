"""Rows of a dataset that hold NaN or Inf, or a number that a table of the model lacks, beyond those
of the batches that were read; and whether all of them have one class."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import torch

from ..foreign import Foreign, containers, observing
from .documents import host
from .relations import Relations, relation
from .step_calls import StepCalls, Table
from .targets import Source, as_batch, size

MOST_VALUES = 65_536
LEAST_OF_ONE = 64
"""Rows of one class that are no chance. Our own number."""


class RowValues:
    """Counts over rows that nothing changes before the model gets them."""

    def __init__(self, source: Source, steps: Optional[StepCalls] = None) -> None:
        collate = observing.attribute(source.items, "collate_fn")
        self._plain = collate is torch.utils.data.default_collate
        self._relations = Relations()
        self._tables: Dict[str, Table] = steps.indexed() if steps is not None else {}
        self._rows = 0
        self._beyond: Dict[str, List[int]] = {}
        self._ends: Dict[str, List[int]] = {}
        """Lowest and highest number of a field."""
        taught = steps.taught if steps is not None else {}
        self._one = {name: min(each) for name, each in taught.items() if len(each) == 1}
        """Targets of the loss that were one number in all steps."""
        self._total = size(observing.attribute(source.items, "dataset"))

    def add(self, row: Foreign, number: int) -> None:
        if not self._plain:
            return
        self._rows += 1
        for name, each in containers.tensors(row, "row").items():
            if each.is_floating_point() and each.numel() <= MOST_VALUES:
                bad = not bool(torch.isfinite(host(each)).all())
                self._relations.count("row not finite", bad, number, name)
        if self._tables or self._one:
            named = containers.tensors(as_batch(row))
            self._add_numbers(named, number)
            same = {
                n: e for n, e in self._one.items() if n in named and bool((named[n] == e).all())
            }
            self._one = same

    def _add_numbers(self, named: Dict[str, torch.Tensor], number: int) -> None:
        for name, table in self._tables.items():
            values = named.get(name)
            if values is None or values.is_floating_point() or not values.numel():
                continue
            low, high = int(values.min()), int(values.max())
            ends = self._ends.setdefault(name, [low, high])
            ends[:] = min(ends[0], low), max(ends[1], high)
            if low < 0 or high >= table.entries:
                self._beyond.setdefault(name, []).append(number)

    def records(self) -> List[Dict[str, Any]]:
        found = self._relations.records()
        whole = self._rows == self._total and self._rows >= LEAST_OF_ONE
        for name, value in self._one.items() if whole else ():
            found.append(
                relation("one class taught", self._rows, self._rows, (name,), (), (value,))
            )
        for name, beyond in self._beyond.items():
            low, high = self._ends[name]
            numbers = (high, self._tables[name].entries, low)
            found.append(relation("row beyond table", len(beyond), self._rows, (name,), beyond,
                                  numbers))  # fmt: skip
        return found

"""Whether a row stays as it is when it is read: one that is changed in place drifts with each
epoch."""

from __future__ import annotations

import random
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch

from ..foreign import Foreign, containers, observing
from . import rows, seeds
from .targets import Source, size

READS = 4
LEAST = 4
"""Values of a field that determine a factor and a difference with some to spare."""
EXACT = 1e-4
"""Relative error of float32 after a few operations. Our own number."""


class Drift(NamedTuple):
    how: str
    """same, scaled, longer, other."""
    factor: float = 1.0
    difference: float = 0.0


OTHER = Drift("other")


def of_rows(source: Source, delivered: bool) -> Optional[Dict[str, Any]]:
    """The record Rereading of the first, the middle and the last row; None of what cannot be read
    by number, and of tables, which give a copy. `delivered`: each row was read before."""
    dataset = rows.dataset_of(source)
    count = size(dataset) or 0
    tables = ("again", "column_names")
    if not count or not observing.has(dataset, "__getitem__") or isinstance(dataset, list):
        return None
    if any(observing.has(dataset, name) for name in tables):
        return None
    record: Dict[str, Any] = {"type": "Rereading", "rows": 0, "how": "same"}
    with seeds.kept():
        for number in sorted({0, count // 2, count - 1}):
            record["rows"] += 1
            if (found := _of_row(dataset, number, delivered)) is not None:
                return {**record, **found, "row": number}
    return record


def _of_row(dataset: Foreign, number: int, delivered: bool) -> Optional[Dict[str, Any]]:
    """What changes when a row is read again under the same random numbers."""
    reads: List[Dict[str, torch.Tensor]] = []
    for _ in range(READS):
        try:
            reads.append(_values(_read(dataset, number)))
        except Exception as error:
            if not reads and not delivered:
                raise
            return {"how": "raised", "error": type(error).__name__}
    if any(set(each) != set(reads[0]) for each in reads):
        return {"how": "other"}
    drifts = [(name, drift([each[name] for each in reads])) for name in reads[0]]
    found = [(name, each) for name, each in drifts if each.how != "same"]
    if not found:
        return None
    if any(each.how == "other" for _, each in found):
        return {"how": "other"}
    name, each = found[0]
    return {
        "how": each.how,
        "field": name[:60],
        "factor": each.factor,
        "difference": each.difference,
    }


def _read(dataset: Foreign, number: int) -> Foreign:
    random.seed(0)
    torch.manual_seed(0)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(0)
    return dataset[number]


def _values(row: Foreign, name: str = "") -> Dict[str, torch.Tensor]:
    """A copy of the numbers of each field, by its position: "x", "0.ids"."""
    if (values := numbers(row)) is not None:
        return {name or "0": values}
    if containers.is_mapping(row):
        named = list(row.items())
    else:
        named = list(enumerate(row)) if isinstance(row, (tuple, list)) else []
    found: Dict[str, torch.Tensor] = {}
    for key, value in named:
        found.update(_values(value, "%s.%s" % (name, key) if name else str(key)))
    return found


def numbers(value: Foreign) -> Optional[torch.Tensor]:
    """The numbers of a tensor, an array or a list, flat and copied; None of anything else."""
    is_list = isinstance(value, list) and value
    if is_list and not all(isinstance(each, (int, float)) for each in value):
        return None
    if not (is_list or isinstance(value, torch.Tensor) or type(value).__module__ == "numpy"):
        return None
    tensor = torch.as_tensor(value).detach()
    if tensor.is_complex():
        return None
    return tensor.reshape(-1).to(torch.float64, copy=True)


def drift(series: List[torch.Tensor]) -> Drift:
    """How a field changes from reading to reading; scaled and longer only where each reading does
    it alike, which random numbers do not."""
    first, second = series[:2]
    pairs = [(series[n - 1], series[n]) for n in range(1, len(series))]
    if all(_equal(*pair) for pair in pairs):
        return Drift("same")
    if len(first) != len(second):
        return Drift("longer", difference=len(second) - len(first)) if _longer(pairs) else OTHER
    if len({len(each) for each in series}) > 1 or len(first) < LEAST:
        return OTHER
    spread = float(first.var(False))
    if not spread > 0:
        return OTHER
    factor = float(((first - first.mean()) * (second - second.mean())).mean()) / spread
    difference = float(second.mean() - factor * first.mean())
    for before, after in pairs:
        scale = EXACT * (float(after.abs().max()) + abs(difference))
        if not bool(((factor * before + difference - after).abs() <= scale).all()):
            return OTHER
    return Drift("scaled", factor, difference)


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    same = len(one) == len(other)
    return same and bool(torch.allclose(one, other, rtol=0.0, atol=0.0, equal_nan=True))


def _longer(pairs: List[Tuple[torch.Tensor, torch.Tensor]]) -> bool:
    """Whether each reading adds as many values, at one and the same end."""
    steps = {len(after) - len(before) for before, after in pairs}
    if len(steps) > 1 or min(steps) < 1:
        return False
    at_end = all(_equal(after[: len(before)], before) for before, after in pairs)
    return at_end or all(_equal(after[-len(before) :], before) for before, after in pairs)

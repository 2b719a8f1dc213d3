"""Whether a collating function that brings rows to another order, as by their length, takes their
targets along."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import torch

from ..foreign import Foreign, containers, observing
from . import rows, seeds
from .documents import host
from .mixed_targets import is_default, is_number
from .relations import relation
from .targets import Source

SAMPLES, LEAST_MOVED = 40, 4
Sample = Tuple[torch.Tensor, float]


def of_source(source: Source) -> List[Dict[str, Any]]:
    """A record where inputs are in another order than before, and targets in the one before."""
    collate = observing.attribute(source.items, "collate_fn")
    dataset, numbers = rows.scattered(source, SAMPLES)
    if source.kind != "loader" or not callable(collate) or is_default(collate):
        return []
    with seeds.kept():
        given = [dataset[number] for number in numbers[:SAMPLES]]
        samples = [sample_of(each) for each in given]
        found = [each for each in samples if each is not None]
        if len(found) < len(given) or len(found) < LEAST_MOVED:
            return []
        batch = containers.tensors(collate(given)).values()
    order = next((o for each in batch if (o := order_in(host(each), found)) is not None), None)
    before = torch.tensor([target for _, target in found])
    if order is None or order == sorted(order):
        return []
    moved = int((before[order] != before).sum())
    whole = [host(e).double().reshape(-1) for e in batch if e.numel() == len(before)]
    kept = any(torch.equal(each, before) for each in whole)
    along = any(torch.equal(each, before[order]) for each in whole)
    if moved < LEAST_MOVED or along or not kept:
        return []
    return [relation("targets in another order", moved, len(before))]


def sample_of(row: Foreign) -> Optional[Sample]:
    """The values of a row's first field, and its target: one number."""
    values = list(row.values()) if containers.is_mapping(row) else row
    if not isinstance(values, (list, tuple)) or len(values) < 2:
        return None
    each = [torch.as_tensor(one) for one in values if is_number(one) or is_numbers(one)]
    inputs = next((one for one in each if one.numel() > 1), None)
    target = next((one for one in reversed(each) if one.numel() == 1), None)
    if inputs is None or target is None:
        return None
    return host(inputs).double().reshape(len(inputs), -1).clone(), float(target)


def is_numbers(value: Foreign) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], (int, float))


def order_in(made: torch.Tensor, samples: List[Sample]) -> Optional[List[int]]:
    """The sample that each row of a field begins with; None where it is none, or several."""
    if made.dim() < 2 or len(made) != len(samples):
        return None
    found = []
    for row in made.double():
        flat = row.reshape(len(row), -1)
        fits = [n for n, (each, _) in enumerate(samples) if begins(flat, each)]
        longest = max((len(samples[n][0]) for n in fits), default=0)
        fits = [n for n in fits if len(samples[n][0]) == longest]
        if len(fits) != 1:
            return None
        found += fits
    return found if len(set(found)) == len(found) else None


def begins(row: torch.Tensor, each: torch.Tensor) -> bool:
    return row.shape[1:] == each.shape[1:] and torch.equal(row[: len(each)], each)

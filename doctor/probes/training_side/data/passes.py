"""Whether a second pass over a loader gives something, and its sampler can draw each row."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import torch

from ..foreign import containers, observing
from .relations import relation
from .targets import Source, size

LEAST_BATCH = 4


def of_source(source: Source) -> List[Dict[str, Any]]:
    """Records on the loader and its sampler."""
    found = [_once(source), _weights(source), _length(source)]
    return [each for each in found if each is not None]


def _once(source: Source) -> Optional[Dict[str, Any]]:
    """Whether what is iterated is the same iterator each time, which ends once."""
    if source.kind != "loader" or isinstance(source.items, (list, tuple)):
        return None
    dataset = observing.attribute(source.items, "dataset")
    stream = isinstance(dataset, torch.utils.data.IterableDataset)
    value = dataset if stream else source.items
    if isinstance(value, torch.utils.data.DataLoader):
        return None
    first, second = iter(value), iter(value)
    return relation("one pass", 1, 1) if first is second else None


def _length(source: Source) -> Optional[Dict[str, Any]]:
    """A dataset whose length is that of its lists divided by the size of a batch."""
    dataset = observing.attribute(source.items, "dataset")
    count, each = size(dataset), observing.attribute(source.items, "batch_size")
    if not count or not isinstance(each, int) or each < LEAST_BATCH:
        return None
    own = dict(observing.attribute(dataset, "__dict__", {})).values()
    held = [size(value) for value in own if observing.has(value, "__getitem__")]
    lengths = [n for n in held if n is not None and n // each <= count <= -(-n // each)]
    if not lengths or max(n or 0 for n in held) != lengths[0] or lengths[0] < LEAST_BATCH * each:
        return None
    row = containers.tensors(dataset[0], "row").values()
    if any(one.dim() and len(one) == each for one in row):
        return None  # it makes batches itself
    return relation("rows counted by batches", 1, 1, (), (), (count, lengths[0], each))


def _weights(source: Source) -> Optional[Dict[str, Any]]:
    """A sampler by weights that has fewer of them than there are rows."""
    sampler = observing.attribute(source.items, "sampler")
    rows = size(observing.attribute(source.items, "dataset"))
    weights = observing.attribute(sampler, "weights")
    if not isinstance(sampler, torch.utils.data.WeightedRandomSampler) or rows is None:
        return None
    return relation("weights short", len(weights), rows) if len(weights) < rows else None

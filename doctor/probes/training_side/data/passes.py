"""Two passes over a loader: whether the second one gives something, in another order; and whether
its sampler can draw each row."""

from __future__ import annotations

import os
import re
from itertools import islice
from typing import Any, Dict, List, Optional

import torch

from ..foreign import Foreign, observing
from .relations import relation
from .targets import Source, size

COMPARED = 256
LOOP = re.compile(r"\.backward\(")
OTHERS = re.compile(
    r"set_epoch|^\s*(?:from|import)\s+(?:accelerate|lightning|pytorch_lightning|ignite|composer|ray)",
    re.MULTILINE,
)
"""What calls set_epoch(), or may do so."""


def of_source(source: Source) -> List[Dict[str, Any]]:
    """Records on the loader and its sampler."""
    found = [_once(source), _weights(source)]
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


def _weights(source: Source) -> Optional[Dict[str, Any]]:
    """A sampler by weights that has fewer of them than there are rows."""
    sampler = observing.attribute(source.items, "sampler")
    rows = size(observing.attribute(source.items, "dataset"))
    weights = observing.attribute(sampler, "weights")
    if not isinstance(sampler, torch.utils.data.WeightedRandomSampler) or rows is None:
        return None
    return relation("weights short", len(weights), rows) if len(weights) < rows else None


def epochs(source: Source, file: str) -> Optional[Dict[str, Any]]:
    """The record Epochs of a DistributedSampler that shuffles, where the file that makes it trains in
    a loop of its own and never calls set_epoch(); None elsewhere."""
    sampler = observing.attribute(source.items, "sampler")
    kind = torch.utils.data.distributed.DistributedSampler
    if not isinstance(sampler, kind) or not observing.attribute(sampler, "shuffle", False):
        return None
    text = _text(file)
    if not LOOP.search(text) or OTHERS.search(text):
        return None
    orders = [list(islice(iter(sampler), COMPARED)) for _ in range(2)]
    return {
        "type": "Epochs",
        "sampler": type(sampler).__name__,
        "epochs": 2,
        "compared": len(orders[0]),
        "same": orders[0] == orders[1],
        "file": os.path.basename(file),
    }


def _text(file: str) -> str:
    try:
        with open(file, encoding="utf-8", errors="replace") as opened:
            return opened.read()
    except OSError:
        return ""

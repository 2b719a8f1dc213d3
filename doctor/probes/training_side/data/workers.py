"""Whether the workers of a loader deliver different samples."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Set

import torch

from ..foreign import Foreign, observing
from . import own_generators
from .documents import tokens_of
from .mixing import key_of, samples_of
from .targets import Source

BATCHES = 4
"""Of each worker."""


def twins(source: Source, batches: List[Foreign]) -> Optional[Dict[str, Any]]:
    """The record Workers of the first batches; None for a loader with fewer than two workers."""
    loader = source.items
    count = observing.attribute(loader, "num_workers", 0)
    if not isinstance(count, int) or count < 2:
        return None
    record: Dict[str, Any] = {"type": "Workers", "workers": count}
    mine = batches[: BATCHES * count]
    record["samples"], record["twins"] = _count(mine, count)
    if record["twins"]:
        keys = _alone(loader, len(mine))
        record["alone"] = None if keys is None else len(keys) - len(set(keys))
        record["drawn"] = bool(keys) and _draws(loader, len(mine))
    return record


def _draws(loader: Foreign, most: int) -> bool:
    """Whether a stream makes its samples from a generator that it has itself, of which each worker
    gets a copy: read twice in one process, it gives others."""
    with own_generators.as_before(loader.dataset) as generators:
        passes = [_alone(loader, most) for _ in range(2)] if generators else []
    return len(passes) == 2 and not set(passes[0] or ()) & set(passes[1] or ())


def _count(batches: List[Foreign], workers: int) -> Any:
    """Samples, and those that a batch of another worker has, too."""
    origins: Dict[bytes, Set[int]] = {}
    keys: List[bytes] = []
    for number, batch in enumerate(batches):
        for key in _keys(batch):
            keys.append(key)
            origins.setdefault(key, set()).add(number % workers)
    return len(keys), sum(len(origins[key]) > 1 for key in keys)


def _keys(batch: Foreign) -> List[bytes]:
    return [key_of(each) for each in samples_of(batch, tokens_of(batch))]


def _alone(loader: Foreign, most: int) -> Optional[List[bytes]]:
    """Samples in as many batches of the same dataset without workers; None if they cannot be
    read."""
    keys: List[bytes] = []
    try:
        plain = torch.utils.data.DataLoader(
            loader.dataset, batch_size=loader.batch_size, collate_fn=loader.collate_fn
        )
        for number, batch in enumerate(plain):
            keys += _keys(batch)
            if number + 1 >= most:
                break
    except Exception:
        return None
    return keys

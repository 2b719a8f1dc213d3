"""Whether each worker, and each epoch, gets random numbers of its own: from a worker_init_fn, or
from generators of the dataset."""

from __future__ import annotations

import contextlib
import random
import sys
from typing import Any, Dict, Iterator, List, Optional

import torch

from ..foreign import Foreign, observing
from . import own_generators, row_contents, rows
from .targets import Source, size

EPOCHS, OTHER = (11, 1_000_003), 2
"""Base seeds of two epochs, and workers that are compared."""
ROWS = 16
"""Of which coin tosses are equal once in 65,536 times."""


def of_workers(source: Source) -> Optional[Dict[str, Any]]:
    """The record Seeds; None where workers keep the seeds that torch gives them, and where the
    samples are not random."""
    loader = source.items
    start = observing.attribute(loader, "worker_init_fn")
    workers = observing.attribute(loader, "num_workers", 0)
    dataset = rows.dataset_of(source)
    if not isinstance(workers, int) or workers < 1 or not size(dataset):
        return None
    start = start if callable(start) else None
    with own_generators.as_before(dataset) as own:
        if start is None and not own:
            return None
    with kept():
        states = {(e, w): drawn(start, dataset, e, w) for e in EPOCHS for w in range(OTHER)}
        plain = [drawn(None, dataset, epoch, 0) for epoch in EPOCHS]
        again = drawn(None, dataset, EPOCHS[0], 0, readings=2)
    copied = bool(own) and plain[0] == plain[1] and again != plain[0]
    if not copied and (start is None or plain[0] == plain[1]):
        return None
    one, other = EPOCHS
    return {
        "type": "Seeds",
        "workers": workers,
        "equal_workers": workers > 1 and states[one, 0] == states[one, 1],
        "equal_epochs": states[one, 0] == states[other, 0],
        "persistent": bool(observing.attribute(loader, "persistent_workers", False)),
        "copied": copied,
    }


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """The states of all generators, and the worker of this process, as they were before."""
    numpy, worker = sys.modules.get("numpy"), torch.utils.data._utils.worker
    state, info = random.getstate(), worker._worker_info
    arrays = numpy.random.get_state() if numpy is not None else None
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(state)
        worker._worker_info = info
        if numpy is not None:
            numpy.random.set_state(arrays)


def drawn(
    start: Foreign, dataset: Foreign, epoch: int, number: int, readings: int = 1
) -> List[bytes]:
    """The first rows that a worker would read after torch has seeded it and `start` was called, in
    the last reading; each worker begins with a copy of the dataset as it is now."""
    seed, worker = epoch + number, torch.utils.data._utils.worker
    random.seed(seed)
    torch.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)
    worker._worker_info = worker.WorkerInfo(
        id=number, num_workers=OTHER, seed=seed, dataset=dataset
    )
    found: List[Foreign] = []
    with own_generators.as_before(dataset):
        if start is not None:
            start(number)
        for _ in range(readings):
            found = [
                row_contents.row_of(dataset[each]) for each in range(min(ROWS, size(dataset) or 0))
            ]
    return [b"" if row is None else row.content for row in found]

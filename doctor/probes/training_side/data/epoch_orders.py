"""Whether a sampler of the user's gives each epoch an order of its own once it is told of it."""

from __future__ import annotations

import contextlib
import sys
from itertools import islice
from typing import Any, Dict, Iterator, List, Optional, Set

from torch.utils.data import DistributedSampler

from ..foreign import Foreign, observing
from . import seeds
from .targets import Source

COMPARED = 512
EPOCHS = (0, 1)
DRAWING = {"randperm", "multinomial", "rand", "randint", "getrandbits", "random"}
"""Functions of torch, and of Python's generators, that draw; numpy's are not seen."""


def of_source(source: Source) -> Optional[Dict[str, Any]]:
    """The record Epochs of one that shuffles and gives two epochs the same order; None of others,
    and of torch's own, which a training may not tell of its epochs."""
    sampler = next(filter(has_epochs, samplers_of(source.items)), None)
    if sampler is None:
        return None
    before = observing.attribute(sampler, "epoch", 0)
    with seeds.kept(), draws() as drawn:
        try:
            one, other = [order_of(sampler, epoch) for epoch in EPOCHS]
        finally:
            sampler.set_epoch(before)
    if not drawn or one != other or one == sorted(one) or len(set(one)) < 2:
        return None
    return {
        "type": "Epochs", "sampler": type(sampler).__name__[:60], "epochs": 2,
        "compared": len(one), "same": True, "told": True,
    }  # fmt: skip


@contextlib.contextmanager
def draws() -> Iterator[Set[str]]:
    """The functions that drew random numbers: a curriculum has one order for all epochs."""
    found: Set[str] = set()

    def note(frame: Foreign, event: str, called: Foreign) -> None:
        if event == "c_call" and called.__name__ in DRAWING:
            found.add(called.__name__)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(before)


def samplers_of(loader: Foreign) -> List[Foreign]:
    batches = observing.attribute(loader, "batch_sampler")
    return [observing.attribute(loader, "sampler"), observing.attribute(batches, "sampler")]


def has_epochs(sampler: Foreign) -> bool:
    told = callable(observing.attribute(sampler, "set_epoch"))
    return told and not isinstance(sampler, DistributedSampler)


def order_of(sampler: Foreign, epoch: int) -> List[int]:
    sampler.set_epoch(epoch)
    return [int(each) for each in islice(iter(sampler), COMPARED)]

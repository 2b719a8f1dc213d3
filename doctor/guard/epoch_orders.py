"""The order of the samples in two epochs: a DistributedSampler needs set_epoch(), and a seed that
is set in each epoch repeats the order of a RandomSampler."""

from __future__ import annotations

import sys
import weakref
from typing import Callable, Protocol

from .foreign import Foreign
from .switch import raise_of_a_signal

MOST_INDICES = 256
"""Of an epoch."""
LEAST_INDICES = 64
"""Of two epochs, from which on they are compared before the end."""
INNER = 4
"""Samplers within samplers."""


class Passes(Protocol):
    """How far the training is."""

    backwards: int


class Order:
    """The first indices of the epoch before, and of this one.

    An epoch without a backward pass is none: statistics are taken, or the model is evaluated.
    """

    def __init__(self, name: str, passes: Passes, compared: Callable[[], None]) -> None:
        self.name = name
        self._passes, self._compared = passes, compared
        self._before: list[Foreign] = []
        self._now: list[Foreign] = []
        self._epochs = self._since = 0
        self._drawing: Foreign = lambda: None
        self._told = False
        self.untold = ""
        """Why nothing is known of the order, "" otherwise."""

    def drawn(self, iterator: Foreign, indices: Foreign) -> None:
        """The iterator took the indices of a batch; an error ends this look, not the guard."""
        if self.untold or self._told:
            return
        try:
            self._draw(iterator._sampler_iter, indices)
        except Exception as error:
            raise_of_a_signal(error)
            self.end(error)

    def end(self, error: Exception) -> None:
        """Indices of this kind are not compared."""
        self.untold = f"following the order of {self.name} raised {type(error).__name__}"
        self._before, self._now = [], []

    def _draw(self, drawing: Foreign, indices: Foreign) -> None:
        if self._drawing() is not drawing:
            self._drawing = reference(drawing)
            if self._trains():
                self._before = self._now
                self._epochs += 1
            self._now, self._since = [], self._passes.backwards
        if len(self._now) < MOST_INDICES:
            self._now += indices[:MOST_INDICES] if isinstance(indices, list) else [indices]
        enough = min(len(self._before), len(self._now)) >= LEAST_INDICES
        if enough and not self._told and self._trains():
            self._told = True
            self._compared()

    def _trains(self) -> bool:
        """Whether there was a backward pass in this epoch."""
        return bool(self._now) and self._passes.backwards > self._since

    def record(self) -> dict[str, object]:
        """The record Epochs; Unknown where the samplers' indices cannot be compared."""
        try:
            epochs = self._epochs_record()
        except Exception as error:
            raise_of_a_signal(error)
            self.end(error)
        return {"type": "Unknown", "reason": self.untold} if self.untold else epochs

    def _epochs_record(self) -> dict[str, object]:
        trains = self._trains()
        before, now = (self._before, self._now) if trains else ([], [])
        compared = min(len(before), len(now))
        return {
            "type": "Epochs",
            "sampler": self.name,
            "epochs": self._epochs + trains,
            "compared": len(set(map(str, now[:compared]))),
            "same": compared > 0 and before[:compared] == now[:compared],
        }


class EpochOrders:
    """Follows the loaders whose sampler shuffles.

    `compared` is called when two epochs of one can be compared.
    """

    def __init__(self, passes: Passes, compared: Callable[[], None]) -> None:
        self._passes, self._compared = passes, compared
        self._orders: weakref.WeakKeyDictionary[Foreign, Order] = weakref.WeakKeyDictionary()

    def of(self, iterator: Foreign) -> Order | None:
        """That of a DataLoader's iterator; None where its sampler does not shuffle."""
        index_sampler = iterator._index_sampler
        try:
            return self._of(index_sampler)
        except Exception as error:
            raise_of_a_signal(error)
            order = Order(type(index_sampler).__name__, self._passes, self._compared)
            order.end(error)
            return order

    def _of(self, index_sampler: Foreign) -> Order | None:
        sampler = shuffling(index_sampler)
        if sampler is None:
            return None
        order = self._orders.get(index_sampler)
        if order is None:
            order = Order(type(sampler).__name__, self._passes, self._compared)
            self._orders[index_sampler] = order
        return order


def shuffling(sampler: Foreign) -> Foreign:
    """The sampler that shuffles, within a sampler of batches; None for another one."""
    distributed = sys.modules.get("torch.utils.data.distributed")
    random = sys.modules.get("torch.utils.data.sampler")
    kinds = getattr(distributed, "DistributedSampler", ()), getattr(random, "RandomSampler", ())
    for _ in range(INNER):
        if sampler is None:
            return None
        if isinstance(sampler, kinds[0]):
            return sampler if getattr(sampler, "shuffle", False) else None
        if kinds[1] and type(sampler) is kinds[1]:
            return sampler
        inner = getattr(sampler, "sampler", None)
        sampler = getattr(sampler, "batch_sampler", None) if inner is None else inner
    return None


def reference(value: Foreign) -> Callable[[], Foreign]:
    """A weak one; built-in lists and their iterators have none, and are held."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value

"""Which samples the training takes at each step, and how many batches its loader has.

A batch counts as taken by the step before which a backward pass followed it. Where a loader fetches
one batch ahead, that is the one after it, in all runs alike.
"""

from __future__ import annotations

import time
import weakref
from collections import deque
from types import ModuleType
from typing import Callable, List, Optional, Tuple

from ..batch_hooks import iterator_kind
from ..epoch_orders import shuffling
from ..foreign import Foreign
from ..patches import Patches
from .imports import after_import

MOST_SAMPLES = 200_000
"""That are recorded of a process."""
LONGEST = 100
DISTRIBUTED = "DistributedSampler"
MAP_STYLE = 0
"""Of torch's kinds of datasets: the one that is read by index."""


class Loaders:
    """Follows the iterators of DataLoaders; `backwards` counts the backward passes so far."""

    def __init__(self, torch: ModuleType, observer: Foreign, backwards: Callable[[], int]) -> None:
        self.torch, self.observer, self.backwards = torch, observer, backwards
        self._drawn: weakref.WeakKeyDictionary[Foreign, deque[Foreign]]
        self._drawn = weakref.WeakKeyDictionary()
        self._last: Optional[Tuple[Foreign, List[Foreign], int]] = None
        """Iterator, samples and backward passes of the batch that was fetched last."""
        self._taken: List[Foreign] = []
        self._training: weakref.WeakSet[Foreign] = weakref.WeakSet()
        """Iterators of which a batch was taken."""
        self.waited = 0.0
        """Seconds in which the training waited for batches since the last step."""
        self._recorded = 0
        self._known = False

    def install(self, patches: Patches) -> None:
        """Wrap the iterators of DataLoader, and Join, which lets ranks end unevenly."""
        kind = iterator_kind()
        if kind is not None:
            patches.replace(kind, "_next_index", self._index)
            patches.replace(kind, "__next__", self._next)
        name = "torch.distributed.algorithms.join"
        after_import({name: lambda found: patches.replace(found.Join, "__enter__", self._join)})

    def _index(self, original: Callable[..., Foreign]) -> Callable[..., Foreign]:
        def _next_index(iterator: Foreign) -> Foreign:
            indices = original(iterator)
            self.observer.safely(self.draw, iterator, indices)
            return indices

        return _next_index

    def _next(self, original: Callable[..., Foreign]) -> Callable[..., Foreign]:
        def __next__(iterator: Foreign) -> Foreign:
            began = time.monotonic()
            try:
                data = original(iterator)
            except StopIteration:
                self.observer.safely(self.end, iterator)
                raise
            if self.torch.is_grad_enabled():
                self.waited += time.monotonic() - began
            self.observer.safely(self.fetch, iterator)
            return data

        return __next__

    def _join(self, original: Callable[..., Foreign]) -> Callable[..., Foreign]:
        def __enter__(join: Foreign) -> Foreign:
            self.observer.begin()
            self.observer.records.write("joined")
            return original(join)

        return __enter__

    def draw(self, iterator: Foreign, indices: Foreign) -> None:
        """The sampler gave the indices of a batch, which is fetched later, in this order."""
        if getattr(iterator, "_dataset_kind", None) == MAP_STYLE:
            self._drawn.setdefault(iterator, deque()).append(indices)

    def fetch(self, iterator: Foreign) -> None:
        """A batch arrived."""
        queue = self._drawn.get(iterator)
        indices = queue.popleft() if queue else []
        if not self.torch.is_grad_enabled():
            self.observer.evaluations.fetched(iterator)
            return
        self._settle()
        samples = list(indices) if isinstance(indices, (list, tuple)) else [indices]
        self._last = weakref.ref(iterator), samples, self.backwards()

    def step(self, number: int) -> None:
        """A step is about to be taken: record its samples."""
        self._settle()
        taken, self._taken = self._taken, []
        self._recorded += len(taken)
        if taken and self._recorded <= MOST_SAMPLES:
            named = [each if type(each) is int else str(each)[:LONGEST] for each in taken]
            self.observer.records.write("taken", s=number, samples=named)

    def end(self, iterator: Foreign) -> None:
        """An epoch of a loader ended."""
        self._settle()
        if iterator in self._training and self.torch.is_grad_enabled():
            self.observer.records.write("epoch", s=self.observer.step)

    def _settle(self) -> None:
        """The batch that was fetched last was taken, if a backward pass followed it."""
        if self._last is None or self.backwards() == self._last[2]:
            return
        iterator, samples, _ = self._last
        self._last = None
        self._taken += samples
        found = iterator()
        if found is not None:
            if not self._known:
                self._known = True
                self._report(found)
            self._training.add(found)

    def _report(self, iterator: Foreign) -> None:
        """The first batch of the first loader was taken."""
        sampler, batches = iterator._index_sampler, None
        if iterator._dataset_kind == MAP_STYLE:
            try:
                batches = len(sampler)
            except (TypeError, NotImplementedError):  # it has no length
                batches = None
        shuffles = shuffling(sampler)
        name = "" if shuffles is None else type(shuffles).__name__[:LONGEST]
        by = f"seed {shuffles.seed}, epoch {shuffles.epoch}" if name == DISTRIBUTED else ""
        self.observer.begin()
        self.observer.records.write("loader", batches=batches, shuffles=name, by=by[:LONGEST])

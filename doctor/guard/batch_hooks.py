"""The batches that a DataLoader returns."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Callable

from .foreign import Foreign

if TYPE_CHECKING:
    from .hooks import Hooks


def install(hooks: Hooks) -> None:
    """Wrap the iterators of DataLoader."""
    module = sys.modules.get("torch.utils.data.dataloader")
    iterator = getattr(module, "_BaseDataLoaderIter", None)
    if iterator is not None:
        hooks.replace(iterator, "__next__", lambda original: _next(hooks, original))
        hooks.replace(iterator, "_next_index", lambda original: _next_index(hooks, original))
        if hooks.watch.settings.all:
            hooks.replace(iterator, "__next__", lambda original: _timed_next(hooks, original))


def _next(hooks: Hooks, original: Callable[..., Foreign]) -> Callable[..., Foreign]:
    fetched = hooks.watch.batches.batch_fetched

    def __next__(iterator: Foreign) -> Foreign:
        data = original(iterator)
        if hooks.active:
            try:
                fetched(iterator, data)
            except Exception as error:
                hooks.fail(error)
        return data

    return __next__


def _timed_next(hooks: Hooks, original: Callable[..., Foreign]) -> Callable[..., Foreign]:
    watch: Foreign = hooks.watch

    def __next__(iterator: Foreign) -> Foreign:
        began = time.perf_counter()
        data = original(iterator)
        if hooks.active:
            hooks.safely(watch.batch_waited, iterator, time.perf_counter() - began)
        return data

    return __next__


def _next_index(hooks: Hooks, original: Callable[..., Foreign]) -> Callable[..., Foreign]:
    drawn = hooks.watch.batches.index_drawn

    def _next_index(iterator: Foreign) -> Foreign:
        indices = original(iterator)
        if hooks.active:
            try:
                drawn(iterator, indices)
            except Exception as error:
                hooks.fail(error)
        return indices

    return _next_index

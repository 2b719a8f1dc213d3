"""The batches that a DataLoader returns."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

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


def _next(hooks: Hooks, original: Any) -> Any:
    fetched = hooks.watch.batches.batch_fetched

    def __next__(iterator: Any) -> Any:
        data = original(iterator)
        if hooks.active:
            try:
                fetched(iterator, data)
            except Exception as error:
                hooks.fail(error)
        return data

    return __next__


def _timed_next(hooks: Hooks, original: Any) -> Any:
    watch: Any = hooks.watch

    def __next__(iterator: Any) -> Any:
        began = time.perf_counter()
        data = original(iterator)
        if hooks.active:
            hooks.safely(watch.batch_waited, iterator, time.perf_counter() - began)
        return data

    return __next__


def _next_index(hooks: Hooks, original: Any) -> Any:
    drawn = hooks.watch.batches.index_drawn

    def _next_index(iterator: Any) -> Any:
        indices = original(iterator)
        if hooks.active:
            try:
                drawn(iterator, indices)
            except Exception as error:
                hooks.fail(error)
        return indices

    return _next_index

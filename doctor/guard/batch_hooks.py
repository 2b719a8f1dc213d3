"""The batches that a DataLoader returns."""

from __future__ import annotations

import sys
import time
from typing import Callable

from .batches import Batches
from .early import Early
from .evaluations import Evaluations
from .first_batches import FirstBatches
from .foreign import Foreign
from .patches import Patches
from .switch import Switch
from .waits import Waits


def install(
    switch: Switch,
    patches: Patches,
    batches: Batches,
    first: FirstBatches,
    early: Early,
    evaluations: Evaluations,
    waits: Waits,
    ended: Callable[[Foreign], None],
) -> None:
    """Wrap the iterators of DataLoader; `ended` gets one that has no more batches."""
    drawn, epochs = batches.index_drawn, evaluations.epochs

    def fetched(iterator: Foreign, data: Foreign) -> None:
        batches.batch_fetched(iterator, data)
        if first.open:
            first.fetched(iterator, data)
        if early.open:
            early.fetched(iterator, data)
        now = epochs.fetched(iterator)
        if evaluations.open:
            evaluations.fetched(iterator, now)

    iterator = iterator_kind()
    if iterator is not None:
        patches.replace(
            iterator, "__next__", lambda original: _next(switch, fetched, waits, original)
        )
        patches.replace(
            iterator, "_next_index", lambda original: _index(switch, drawn, ended, original)
        )


def install_clock(
    switch: Switch, patches: Patches, waited: Callable[[Foreign, float], None]
) -> None:
    """Time how long the iterators take; `waited` gets the iterator and the seconds."""
    iterator = iterator_kind()
    if iterator is not None:
        patches.replace(iterator, "__next__", lambda original: _timed(switch, waited, original))


def iterator_kind() -> Foreign:
    """The class of all iterators of a DataLoader; None where torch has another."""
    module = sys.modules.get("torch.utils.data.dataloader")
    return getattr(module, "_BaseDataLoaderIter", None)


def _next(
    switch: Switch,
    fetched: Callable[[Foreign, Foreign], None],
    waits: Waits,
    original: Callable[..., Foreign],
) -> Foreign:
    clock = time.perf_counter

    def waited(iterator: Foreign) -> Foreign:
        """The batch, with the time that it takes."""
        began = clock()
        if waits.fetching(iterator):
            with waits.counting(getattr(iterator._index_sampler, "batch_size", 0) or 1):
                data = original(iterator)
        else:
            data = original(iterator)
        waits.fetched(iterator, began, clock())
        return data

    def __next__(iterator: Foreign) -> Foreign:
        data = waited(iterator) if waits.open and switch.active else original(iterator)
        if switch.active:
            try:
                fetched(iterator, data)
            except Exception as error:
                switch.fail(error)
        return data

    return __next__


def _timed(
    switch: Switch, waited: Callable[[Foreign, float], None], original: Callable[..., Foreign]
) -> Foreign:
    def __next__(iterator: Foreign) -> Foreign:
        began = time.perf_counter()
        data = original(iterator)
        if switch.active:
            switch.safely(waited, iterator, time.perf_counter() - began)
        return data

    return __next__


def _index(
    switch: Switch,
    drawn: Callable[[Foreign, Foreign], None],
    ended: Callable[[Foreign], None],
    original: Callable[..., Foreign],
) -> Foreign:
    def _next_index(iterator: Foreign) -> Foreign:
        try:
            indices = original(iterator)
        except StopIteration:
            switch.safely(ended, iterator)
            raise
        if switch.active:
            try:
                drawn(iterator, indices)
            except Exception as error:
                switch.fail(error)
        return indices

    return _next_index

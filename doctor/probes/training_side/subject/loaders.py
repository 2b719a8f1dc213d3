"""What gives batches, and the batches that are taken from it."""

from __future__ import annotations

import itertools
import signal
import threading
import time
from typing import Iterator, List, Sequence

import torch

from ... import wire
from ..foreign import Foreign, observing
from .subjects import NotAFactory, NotPossible
from .training_step import Loss

MORE_SECONDS = 5.0
"""After which no further batch is taken: a loader may need seconds for one."""


def is_loader(value: Foreign) -> bool:
    """Whether it gives batches: a DataLoader, an iterator, a list of them; a tensor and a dict are
    batches."""
    if isinstance(value, (list, tuple)):
        return are_batches(value)
    if isinstance(value, (torch.Tensor, str, bytes)):
        return False
    if observing.has(value, "items"):
        return False
    return any(observing.has(value, name) for name in ("__iter__", "__next__"))


def are_batches(values: Sequence[Foreign]) -> bool:
    """Dicts with equal keys, or three and more tuples of tensors, which differ within a tuple and
    are of one kind at each place: no call takes these. Two may be the halves of one batch, as
    support and query of a task are."""
    if values and all(observing.has(each, "items") for each in values):
        return all(each.keys() == values[0].keys() for each in values)
    kinds = [
        [(part.dtype, part.dim()) for part in each if isinstance(part, torch.Tensor)]
        for each in values
        if isinstance(each, (list, tuple))
    ]
    whole = len(kinds) == len(values) > 2 and len(kinds[0]) == len(values[0])
    return whole and len(set(kinds[0])) > 1 and all(each == kinds[0] for each in kinds)


def iterator(loader: Foreign) -> Iterator[Foreign]:
    """An iterator whose errors arise in next() alone.

    torch's handler of SIGCHLD raises the death of a worker wherever this process stands, again for
    each process that ends later; without it next() finds the dead worker within 5 s.
    """
    items: Iterator[Foreign] = iter(loader)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    return items


def batches(batch: Foreign, count: int, after: int = 0) -> List[Foreign]:
    """At most `count` batches of a loader, after so many others; of anything else itself.

    Raises NotPossible where further ones were asked for and there are none.
    """
    if isinstance(batch, torch.utils.data.Dataset):
        raise NotAFactory("the factory's batch is a Dataset; return a DataLoader of it, or "
                          "next(iter(loader))")  # fmt: skip
    if not is_loader(batch):
        if after or count > 1:
            raise NotPossible("the factory returned one batch")
        return [batch]
    wire.send(note={"own": {"has_loader": True}})
    which = "%d batches" % count if count > 1 else "the first batch"
    with wire.stage("take %s of the loader" % which):
        found = _taken(batch, count, after)
    if not found and after:
        raise NotPossible("the loader has no batch %d" % after)
    if not found:
        raise NotAFactory("the factory's %s has no batch%s" % (type(batch).__name__, _size(batch)))
    return found


def _taken(loader: Foreign, count: int, after: int) -> List[Foreign]:
    """Some batches; those after the first as far as there are any, and time."""
    found: List[Foreign] = []
    deadline = time.monotonic() + MORE_SECONDS
    try:
        for each in itertools.islice(iterator(loader), after, None):
            found.append(each)
            if len(found) == count or time.monotonic() > deadline:
                break
    except Exception as error:
        if found:
            return found
        if "in DataLoader worker" in str(error):
            repeat_here(loader, error)
        error.doctor_place = " (in the first batch of the loader)"  # type: ignore[attr-defined]
        raise
    if found and found[0] is None:
        raise NotAFactory("the first batch of the %s is None; its collate_fn returned "
                          "nothing" % type(loader).__name__)  # fmt: skip
    return found


def last_batch(loader: Foreign) -> int:
    """Samples of the last batch of an epoch; 0 where it is as large as the others, or the loader
    does more than torch's own to give batches."""
    if not isinstance(loader, torch.utils.data.DataLoader):
        return 0
    for name in ("__iter__", "_get_iterator"):
        if getattr(type(loader), name) is not getattr(torch.utils.data.DataLoader, name):
            return 0
    sampler = loader.batch_sampler
    if type(sampler) is not torch.utils.data.BatchSampler or sampler.drop_last:
        return 0
    drawn: Foreign = sampler.sampler
    count = observing.attempt(lambda: len(drawn), 0)
    return int(count % sampler.batch_size) if count > sampler.batch_size else 0


def in_turn(loss: Loss) -> Loss:
    """The loss of the next one of several batches at each call, after the last of the first."""
    calls = itertools.count()

    def of_the_next(module: torch.nn.Module, several: Foreign) -> torch.Tensor:
        return loss(module, several[next(calls) % len(several)])

    return of_the_next


def repeat_here(loader: Foreign, error: Exception) -> None:
    """Make the batch of a failed worker in this process: an error of the same type shows more."""
    try:
        numbers = next(iter(loader.batch_sampler))
        loader.collate_fn([loader.dataset[number] for number in numbers])
    except Exception as again:
        if type(again) is type(error):
            again.doctor_place = " (in the first batch of the loader)"  # type: ignore[attr-defined]
            raise again from None


def _size(loader: Foreign) -> str:
    """The numbers that leave a DataLoader without a batch."""
    try:
        size = "; %d samples, batch_size=%s" % (len(loader.dataset), loader.batch_size)
        return size + ", drop_last=True" * bool(loader.drop_last)
    except (AttributeError, TypeError):  # a stream has no length, an iterator no dataset
        return ""

"""The batches that a training seldom meets in its first steps: the longest, the last, the shortest.

Each runs forward and backward, without a step, after the small training has ended.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from typing import Any, Callable, ContextManager, Dict, List, NamedTuple

import torch
import torch.distributed as dist

from ... import wire
from ..foreign import Foreign, containers, observing
from ..subject import subjects
from ..subject.training_step import backpropagate
from .places import record, settings

MOST_SAMPLES, MOST_SECONDS = 20_000, 10.0
"""Samples whose length is read, and the time for that. Our own numbers."""
MOST_BATCHES = 2_000_000
"""Batches drawn from the sampler to find its last one. Our own number."""


class Plan(NamedTuple):
    """What is tried: indices of samples by the name of the batch; or why nothing is."""

    chosen: Dict[str, List[Any]]
    head: Dict[str, Any]


def try_worst(
    loader: Foreign,
    loss: Callable[[Any, Any], torch.Tensor],
    module: torch.nn.Module,
    device: Foreign,
    autocast: Callable[[], ContextManager[None]] = contextlib.nullcontext,
) -> None:
    """Try them in the run that is not stopped, and record how each went."""
    if settings().get("stop_at") or settings().get("output", "").endswith("/stop"):
        return
    plan = same_for_all(loader)
    record("batches", planned=list(plan.chosen), **plan.head)
    for name, indices in plan.chosen.items():
        _try(name, indices, loader, loss, module, device, autocast)


def same_for_all(loader: Foreign) -> Plan:
    """The choice of rank 0: sharded ranks must call the same layers equally often."""
    if not dist.is_initialized():
        return plan_of(loader)
    held: Any = [tuple(plan_of(loader)) if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(held, src=0)
    return Plan(*held[0])


def plan_of(loader: Foreign) -> Plan:
    """Never raises: the sampler and the dataset are the user's."""
    dataset = observing.attribute(loader, "dataset")
    endless = isinstance(dataset, torch.utils.data.IterableDataset)
    if endless or not observing.has(dataset, "__getitem__"):
        return _untold("the loader has no dataset that is read by index")
    sampler = observing.attribute(loader, "batch_sampler")
    if sampler is None:
        return _untold("the loader states no batch size")
    try:
        return _chosen(dataset, sampler)
    except Exception as error:
        return _untold("reading the samples raised %s" % wire.describe(error)[:300])


def _untold(reason: str) -> Plan:
    return Plan({}, {"untold": reason})


def _chosen(dataset: Foreign, sampler: Foreign) -> Plan:
    """Batches as the sampler draws them. Where it only cuts another sampler's indices into equal
    batches, any samples may meet in one, and the longest are put together."""
    began = time.monotonic()
    drawn: List[List[Any]] = []
    for batch in sampler:
        drawn.append(list(batch))
        if len(drawn) > MOST_BATCHES or time.monotonic() - began > MOST_SECONDS:
            return _untold("the sampler did not end in %g s" % MOST_SECONDS)
    if not drawn:
        return _untold("the sampler draws no batch")
    flat = list(itertools.chain.from_iterable(drawn))
    lengths: List[int] = []
    for index in flat[:MOST_SAMPLES]:
        if time.monotonic() - began > MOST_SECONDS:
            break
        lengths.append(length_of(dataset[index]))
    head = {"read": len(lengths), "of": len(flat), "longest": max(lengths, default=0),
            "shortest": min(lengths, default=0)}  # fmt: skip
    chosen = (_mixed if _mixes(sampler) else _as_drawn)(drawn, flat, lengths)
    if len(drawn[-1]) != len(drawn[0]):
        chosen["last"] = drawn[-1]
    return Plan(chosen, head)


def _mixed(drawn: List[List[Any]], flat: List[Any], lengths: List[int]) -> Dict[str, List[Any]]:
    size = len(drawn[0])
    if len(lengths) < size:
        return {}
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    return {"longest": [flat[at] for at in order[::-1][:size]],
            "shortest": [flat[at] for at in order[:size]]}  # fmt: skip


def _as_drawn(drawn: List[List[Any]], flat: List[Any], lengths: List[int]) -> Dict[str, List[Any]]:
    left = iter(lengths)
    longest = [max(itertools.islice(left, len(batch)), default=0) for batch in drawn]
    known = [at for at in range(len(drawn)) if longest[at]]
    if not known:
        return {}
    return {"longest": drawn[max(known, key=lambda at: longest[at] * len(drawn[at]))],
            "shortest": drawn[min(known, key=longest.__getitem__)]}  # fmt: skip


def _mixes(sampler: Foreign) -> bool:
    """Whether it is torch's BatchSampler, or that of accelerate, which shares one among ranks."""
    kind = type(sampler)
    return kind is torch.utils.data.BatchSampler or kind.__module__.startswith("accelerate.")


def length_of(sample: Foreign) -> int:
    """The largest first dimension of a tensor or list in a sample; 1 for numbers."""
    values: Any = sample
    if containers.is_mapping(sample):
        values = list(sample.values())
    elif not isinstance(sample, (tuple, list)) or all(isinstance(v, (int, float)) for v in sample):
        values = [sample]
    longest = 1
    for value in values:
        shape = getattr(value, "shape", None)
        if shape is not None and len(shape):
            longest = max(longest, int(shape[0]))
        elif isinstance(value, (list, tuple)):
            longest = max(longest, len(value))
    return longest


def _try(
    name: str,
    indices: List[Any],
    loader: Foreign,
    loss: Callable[[Any, Any], torch.Tensor],
    module: torch.nn.Module,
    device: Foreign,
    autocast: Callable[[], ContextManager[None]],
) -> None:
    device = torch.device(device)
    on_gpu = device.type == "cuda"
    result: Dict[str, Any] = {"name": name, "samples": len(indices)}
    try:
        batch = loader.collate_fn([loader.dataset[index] for index in indices])
        result["length"] = max((length_of([t[0]]) for t in containers.tensors(batch).values()
                                if t.dim() and len(t)), default=0)  # fmt: skip
        if on_gpu:
            torch.cuda.reset_peak_memory_stats(device)
        module.train()
        with autocast():
            value = loss(module, subjects.on_device(batch, device))
        backpropagate(value)
        if on_gpu:
            result["peak"] = torch.cuda.max_memory_allocated(device)
            result["total"] = torch.cuda.get_device_properties(device).total_memory
    except Exception as error:
        result["error"] = wire.describe(error)[:500]
    for parameter in module.parameters():
        parameter.grad = None
    record("batch", **result)

"""The batches that a training seldom meets in its first steps: the longest, the last, the shortest.

Each runs forward and backward, without a step, after the small training has ended.
"""

from __future__ import annotations

import contextlib
import time
from typing import Any, Callable, ContextManager, Dict, List, Optional

import torch

from ... import wire
from ..foreign import Foreign, containers, observing
from ..subject import subjects
from ..subject.training_step import backpropagate
from .places import record, settings

MOST_SAMPLES, MOST_SECONDS = 20_000, 10.0
"""Samples whose length is read, and the time for that. Our own numbers."""


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
    dataset = observing.attribute(loader, "dataset")
    size = observing.attempt(lambda: len(dataset), None)
    if size is None or not observing.has(dataset, "__getitem__"):
        record("batches", untold="the loader has no dataset of known length")
        return
    per_batch = _per_batch(loader)
    if per_batch is None:
        record("batches", untold="the loader states no batch size")
        return
    lengths = _lengths(dataset, size)
    record("batches", read=len(lengths), of=size, longest=max(lengths, default=0),
           shortest=min(lengths, default=0))  # fmt: skip
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    chosen = {"longest": order[::-1][:per_batch], "shortest": order[:per_batch]}
    rest = size % per_batch
    if rest and not observing.attribute(loader, "drop_last", False):
        chosen["last"] = list(range(size - rest, size))
    for name, numbers in chosen.items():
        _try(name, numbers, loader, loss, module, device, autocast)


def _per_batch(loader: Foreign) -> Optional[int]:
    size = observing.attribute(loader, "batch_size")
    if size is None:
        size = observing.attribute(observing.attribute(loader, "batch_sampler"), "batch_size")
    return size if isinstance(size, int) and size > 0 else None


def _lengths(dataset: Foreign, size: int) -> List[int]:
    """The longest first dimension in each of the first samples."""
    lengths = []
    began = time.monotonic()
    for number in range(min(size, MOST_SAMPLES)):
        if time.monotonic() - began > MOST_SECONDS:
            break
        lengths.append(length_of(dataset[number]))
    return lengths


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
    numbers: List[int],
    loader: Foreign,
    loss: Callable[[Any, Any], torch.Tensor],
    module: torch.nn.Module,
    device: Foreign,
    autocast: Callable[[], ContextManager[None]],
) -> None:
    device = torch.device(device)
    on_gpu = device.type == "cuda"
    result: Dict[str, Any] = {"name": name, "samples": len(numbers)}
    try:
        batch = loader.collate_fn([loader.dataset[number] for number in numbers])
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

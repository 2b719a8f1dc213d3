"""The head of a report on a checkpoint alone: what was read, the run, the optimizer, imports."""

from __future__ import annotations

from collections.abc import Iterator

from doctor._util.records import Unknown
from doctor._util.units import count, counted, gb, shown
from doctor.checkpoint.records import Checkpoint, History, Optimizer
from doctor.facts.facts import Facts

MOST_IMPORTS = 40
"""Globals that are listed; JSON lists all of them."""


def checkpoint_parts(facts: Facts) -> Iterator[tuple[str, str]]:
    """Name and text of each line of the head."""
    checkpoint = facts.checkpoint
    yield "checkpoint", shown(facts.job.checkpoint or "", 500)
    if not isinstance(checkpoint, Checkpoint):
        return
    yield "layout", " · ".join(_layout(checkpoint))
    if checkpoint.training.history:
        yield "run", _run(checkpoint.training.history)
    elif checkpoint.training.steps is not None:
        yield "run", f"step {checkpoint.training.steps:,}"
    if checkpoint.training.optimizer is not None:
        yield "optimizer", " · ".join(_optimizer(checkpoint.training.optimizer))
    if checkpoint.loading.imports:
        yield "imports", _imports(checkpoint)
    yield from _beside(checkpoint)


def _layout(checkpoint: Checkpoint) -> Iterator[str]:
    yield checkpoint.layout
    yield counted(checkpoint.files.count, "file")
    yield gb(checkpoint.files.bytes)
    if checkpoint.contents.tensors:
        yield counted(checkpoint.contents.tensors, "tensor")
        as_stored = " as stored" if checkpoint.model.quantized else ""
        yield f"{count(checkpoint.contents.parameters)} parameters{as_stored}"
    if checkpoint.model.model_type:
        yield f"model type {shown(checkpoint.model.model_type, 60)}"


def _run(history: History) -> str:
    step = f"step {history.steps:,}"
    if not history.covered:
        return step
    return f"{step} · sum of learning rates {history.lr_sum:.4g} ({history.covered:,} steps logged)"


def _optimizer(optimizer: Optimizer | Unknown) -> Iterator[str]:
    if isinstance(optimizer, Unknown):
        yield f"unknown: {optimizer.reason}"
        return
    yield shown(optimizer.kind, 60)
    yield f"{optimizer.entries:,} of {optimizer.parameters:,} parameters have state"
    if optimizer.moments:
        yield f"moments {_by_dtype(optimizer.moments)}"
    if optimizer.masters:
        yield f"master weights {_by_dtype(optimizer.masters)}"
    if optimizer.step_max is not None:
        lowest = (
            f"{optimizer.step_min:g}-"
            if optimizer.step_min not in (None, optimizer.step_max)
            else ""
        )
        yield f"step {lowest}{optimizer.step_max:g}"
    if optimizer.lr or optimizer.current_lr:
        yield _rates(optimizer)


def _rates(optimizer: Optimizer) -> str:
    """The saved rates, and those that a schedule began with where they are others."""
    initial, current = (
        ", ".join(dict.fromkeys(f"{rate:g}" for rate in rates[:8]))
        for rates in (optimizer.lr, optimizer.current_lr or optimizer.lr)
    )
    return f"learning rate {current}" + f" (initially {initial})" * (initial not in ("", current))


def _by_dtype(counts: dict[str, int]) -> str:
    if len(counts) == 1:
        return shown(next(iter(counts)), 40)
    return ", ".join(f"{shown(dtype, 40)} × {number:,}" for dtype, number in counts.items())


def _imports(checkpoint: Checkpoint) -> str:
    refused, dangerous = set(checkpoint.loading.refused), set(checkpoint.loading.dangerous)
    names = [
        shown(name, 120)
        + " (dangerous)" * (name in dangerous)
        + " (refused by weights_only)" * (name in refused)
        for name in sorted(
            checkpoint.loading.imports,
            key=lambda name: (name not in dangerous, name not in refused, name),
        )
    ]
    more = [f"and {len(names) - MOST_IMPORTS:,} more"] if len(names) > MOST_IMPORTS else []
    return ", ".join(names[:MOST_IMPORTS] + more)


def _beside(checkpoint: Checkpoint) -> Iterator[tuple[str, str]]:
    """Pickles beside the weights, those with dangerous imports first."""
    loading = checkpoint.loading
    dangerous = {*loading.dangerous, *(name for each in loading.called.values() for name in each)}
    beside = sorted(
        checkpoint.loading.beside.items(), key=lambda item: dangerous.isdisjoint(item[1])
    )
    for file, imports in beside[:MOST_IMPORTS]:
        names = sorted(imports, key=lambda name: (name not in dangerous, name))
        each = [shown(name, 120) + " (dangerous)" * (name in dangerous) for name in names]
        more = [f"and {len(each) - 5:,} more"] if len(each) > 5 else []
        unread = not each and any(text.startswith(f"{file} ") for text in loading.unread)
        listed = ", ".join(each[:5] + more) or "nothing"
        yield "beside", f"{shown(file, 300)} " + ("was not read" * unread or f"imports {listed}")
    if len(beside) > MOST_IMPORTS:
        yield "beside", f"and {len(beside) - MOST_IMPORTS:,} more pickles"

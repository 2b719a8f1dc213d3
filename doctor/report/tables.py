"""Tables of a report: what the lines for people, Markdown and HTML share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from doctor._util.units import count, counted, gb, shown
from doctor.checkpoint.records import (
    Checkpoint,
    LayerChange,
    LayerUpdate,
    LayerValues,
    Merge,
    Movement,
    Share,
    Sibling,
    Values,
)
from doctor.facts.fleet import Fleet
from doctor.report.fleet import fleet_tables
from doctor.report.report import Report, Tensor
from doctor.report.table import Table


def tables_of(report: Report) -> Iterator[Table]:
    """The tables of a report on nodes or on a checkpoint alone; none for anything else."""
    if isinstance(report.facts.fleet, Fleet):
        yield from fleet_tables(report.facts.fleet)
        return
    checkpoint = report.facts.checkpoint
    if report.facts.subject == "checkpoint" and isinstance(checkpoint, Checkpoint):
        yield from _of_checkpoint(checkpoint)
        if report.tensors:
            yield _tensors(report.tensors)


def _of_checkpoint(checkpoint: Checkpoint) -> Iterator[Table]:
    if checkpoint.contents.shares:
        yield _shares(checkpoint.contents.shares)
    if checkpoint.siblings:
        yield _checkpoints(checkpoint.siblings)
    yield from _by_layer(checkpoint)


def _by_layer(checkpoint: Checkpoint) -> Iterator[Table]:
    """Tables of a comparison and of a deep scan."""
    if isinstance(checkpoint.movement, Movement):
        yield _changes(checkpoint.movement)
        if checkpoint.movement.layers:
            yield _layer_changes(checkpoint.movement.layers)
    if isinstance(checkpoint.merge, Merge) and checkpoint.merge.layers:
        yield _layer_updates(checkpoint.merge.layers)
    values = checkpoint.values
    if isinstance(values, Values) and values.requested and values.layers:
        yield _layer_values(values.layers)


def _shares(shares: tuple[Share, ...]) -> Table:
    """What the checkpoint holds, by dtype and part of the model."""
    rows = []
    previous = ""
    for share in shares:
        dtype = "" if share.dtype == previous else share.dtype
        previous = share.dtype
        numbers = (f"{share.tensors:,}", count(share.parameters), gb(share.bytes))
        rows.append((dtype, share.kind, *numbers))
    heads = ("dtype", "part", "tensors", "parameters", "bytes")
    return Table("Contents", heads, tuple(rows), right=(2, 3, 4))


def _checkpoints(siblings: tuple[Sibling, ...]) -> Table:
    """The checkpoints of a run, oldest first."""
    heads = ("checkpoint", "step", "size", "norms changed", "moments")
    return Table("Checkpoints of the run", heads, tuple(map(_checkpoint, siblings)))


def _checkpoint(each: Sibling) -> tuple[str, ...]:
    if each.reason:
        return (shown(each.name, 60), "", "", "", shown(each.reason, 200))
    step = "" if each.steps is None else f"{each.steps:,}"
    norms = f"{each.norms - each.unchanged_norms:,} of {each.norms:,}" if each.norms else ""
    dtypes = ", ".join(shown(dtype, 20) for dtype in each.moments)
    moments = f"{dtypes}, {each.nonzero_moments:,} of {each.entries:,} not zero" if dtypes else ""
    damaged = f"{counted(each.problems, 'problem')}" if each.problems else ""
    return (
        shown(each.name, 60),
        step,
        gb(each.bytes),
        norms,
        "; ".join(filter(None, (moments, damaged))),
    )


def _changes(movement: Movement) -> Table:
    rows = tuple(
        (f"{kind:<10}", f"{changed:,} of {compared:,}")
        for kind, (changed, compared) in movement.kinds.items()
    )
    return Table("Parameters changed since the baseline", ("", ""), rows)


def _bars(values: Iterable[float | None]) -> tuple[float, ...]:
    """Shares of the largest; 0 for what is not known."""
    known = [max(value or 0.0, 0.0) for value in values]
    largest = max(known, default=0.0)
    return tuple(value / largest if largest else 0.0 for value in known)


def _layer_changes(layers: tuple[LayerChange, ...]) -> Table:
    rows = tuple(
        (
            each.layer,
            each.kind,
            f"{each.tensors:,}",
            "" if each.relative is None else f"{each.relative:.2%}",
        )
        for each in layers
    )
    heads = ("layer", "part", "tensors", "relative change")
    bars = {3: _bars(each.relative for each in layers)}
    return Table("Change since the baseline, by samples", heads, rows, right=(0, 2, 3), bars=bars)


def _layer_updates(layers: tuple[LayerUpdate, ...]) -> Table:
    rows = tuple(
        (
            each.layer,
            each.kind,
            f"{each.tensors:,}",
            f"{each.relative:.2%}",
            "" if each.scale is None else f"{each.scale:.3g}",
            f"{each.lost:.1%}",
        )
        for each in layers
    )
    heads = ("layer", "part", "weights", "update", "merged", "lost to rounding")
    title = "Updates by layer: size relative to the base, how many times merged, share lost"
    bars = {3: _bars(each.relative for each in layers), 5: tuple(each.lost for each in layers)}
    return Table(title, heads, rows, right=(0, 2, 3, 4, 5), bars=bars)


def _layer_values(layers: tuple[LayerValues, ...]) -> Table:
    rows = tuple(
        (
            each.layer,
            each.kind,
            f"{each.tensors:,}",
            *(f"{value:.3g}" for value in (each.least, each.largest, each.rms, each.norm)),
            f"{each.zeros:.1%}",
        )
        for each in layers
    )
    heads = ("layer", "part", "tensors", "min", "max", "rms", "norm", "zeros (sample)")
    right = (0, 2, 3, 4, 5, 6, 7)
    bars = {5: _bars(each.rms for each in layers)}
    title = "Values by layer, by samples of 8 KiB of each tensor"
    return Table(title, heads, rows, right=right, bars=bars)


def _tensors(tensors: tuple[Tensor, ...]) -> Table:
    rows = tuple(
        (
            shown(name, 500),
            shown(dtype, 40),
            "×".join(map(str, shape)) or "scalar",
            f"{size:,}",
            shown(file, 300),
        )
        for name, dtype, shape, file, size in tensors
    )
    return Table("Tensors", ("tensor", "dtype", "shape", "bytes", "file"), rows, right=(3,))

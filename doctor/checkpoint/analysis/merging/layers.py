"""The updates of all weights, by layer and part."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from doctor.checkpoint.records import Kind
from doctor.checkpoint.records.merge import LayerUpdate, MergedWeight

MOST_ROWS = 2_000


def layers(weights: Iterable[MergedWeight]) -> tuple[LayerUpdate, ...]:
    """Those outside of the numbered layers first."""
    rows: dict[tuple[str, Kind], list[MergedWeight]] = {}
    for weight in weights:
        rows.setdefault((weight.layer, weight.kind), []).append(weight)
    order = sorted(rows.items(), key=lambda item: (int(item[0][0] or -1), item[0][1]))
    return tuple(_row(*key, inside) for key, inside in order[:MOST_ROWS])


def _row(layer: str, kind: Kind, weights: list[MergedWeight]) -> LayerUpdate:
    update = sum(each.update**2 * each.elements for each in weights)
    base = sum(each.base**2 * each.elements for each in weights)
    lost = sum(each.lost * each.update**2 * each.elements for each in weights)
    scales = [each.scale for each in weights if each.scale is not None]
    return LayerUpdate(
        layer=layer,
        kind=kind,
        tensors=len(weights),
        relative=(update / base) ** 0.5 if base else 0.0,
        scale=median(scales) if scales else None,
        lost=lost / update if update else 0.0,
    )

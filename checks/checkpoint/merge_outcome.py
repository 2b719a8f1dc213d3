"""What one merged weight shows, by itself."""

from __future__ import annotations

from typing import Literal

from doctor.checkpoint.records import MergedWeight

FEWEST = 30
"""Elements that the update must change in the stored dtype, to say anything. Our own number."""

ROUNDINGS = 2.0
"""Times the bound of the roundings that a residual may have. Our own number."""

NEAR = 0.05
"""How far from 1 the median of the scales may lie. Our own number."""

EXPLAINED = 0.8
"""Share of the movement that a scale must explain to be named. Our own number."""

SOME_ROWS = 0.5
"""Share of the rows that were measured up to which those that are off are some. Our own number."""

Outcome = Literal[
    "merged", "rows", "undecided", "absent", "scaled", "other", "quantized", "nonfinite"
]
"""rows: merged but for some of them."""


def outcome(weight: MergedWeight) -> Outcome:
    """By the sizes of what moved and what is left."""
    if weight.nonfinite:
        return "nonfinite"
    if weight.expected < FEWEST:
        return "undecided" if weight.changed < FEWEST else "other"
    if weight.changed <= weight.expected * 0.02:
        return "absent"
    return "rows" if _are_some_rows_off(weight) else _by_scale(weight)


def _are_some_rows_off(weight: MergedWeight) -> bool:
    """Where all others are right."""
    some = 0 < weight.rows_off <= weight.rows * SOME_ROWS
    most = max(ROUNDINGS * weight.bound, NEAR * weight.update)
    right = weight.residual_of_others <= most
    return some and right and not (weight.quantized or weight.instead)


def _by_scale(weight: MergedWeight) -> Outcome:
    scale = 1.0 if weight.scale is None else weight.scale
    if weight.residual <= ROUNDINGS * weight.bound and abs(scale - 1) <= 3 * NEAR:
        return "merged"
    if weight.quantized:
        return "quantized"
    if weight.scale is not None and weight.explained >= EXPLAINED:
        near = abs(scale - 1) <= NEAR and weight.explained >= 0.98
        return "merged" if near else "scaled"
    return "other"

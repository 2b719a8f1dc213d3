"""Tensors that are joined along a dimension (cat, stack), or cut along one (split)."""

from __future__ import annotations

import re

from doctor.checks.training.errors.explanation import (
    Explanation,
    Shape,
    dimensions,
    shape,
    tensors,
    text,
)
from doctor.facts.raised import Raised

AXES = {"hstack": 1, "dstack": 2}
"""Functions that join along a fixed dimension other than 0."""


def joined(raised: Raised) -> Explanation | None:
    """Sizes that differ outside the dimension along which tensors are joined."""
    sizes = [shape(each) for each in tensors(raised)]
    if len(sizes) < 2:
        return None
    if len({len(each) for each in sizes}) > 1:
        few = min(sizes, key=len)
        return Explanation(
            f"they have {' and '.join(sorted({str(len(each)) for each in sizes}))} dimensions",
            f"Give all of them the same number of dimensions: unsqueeze adds one to {text(few)}.",
        )
    if not sizes[0]:
        return None
    if raised.function == "stack":
        return _stacked(sizes)
    numbers = [each.value for each in raised.operands if re.fullmatch(r"-?\d+", each.value)]
    axis = int(numbers[0]) if numbers else AXES.get(raised.function, 0)
    return _joined_along(axis % len(sizes[0]), sizes)


def _stacked(sizes: list[Shape]) -> Explanation:
    other = next((each for each in sizes if each != sizes[0]), sizes[0])
    return Explanation(
        f"{text(sizes[0])} and {text(other)} differ",
        "Pad or cut them to one shape before torch.stack, or join them along the dimension "
        "that differs with torch.cat.",
    )


def _joined_along(axis: int, sizes: list[Shape]) -> Explanation | None:
    first = sizes[0]
    other = next((each for each in sizes if not _fits(each, first, axis)), ())
    differing = [n for n, (a, b) in enumerate(zip(first, other, strict=False)) if a != b]
    unequal = [n for n in differing if n != axis]
    if not unequal:
        return None
    cause = f"they may differ in dimension {axis} only, and differ in {dimensions(unequal)}"
    spatial = all(n >= 2 and abs(first[n] - other[n]) <= 3 for n in unequal)
    if len(first) > 3 and spatial:
        large = max(first[unequal[0]], other[unequal[0]])
        return Explanation(
            cause,
            f"Make both images the same size: {large} is halved and doubled to another number. Use "
            "images whose sides are multiples of 2 for each halving (F.pad), or resize: "
            "F.interpolate(deep, size=skip.shape[-2:]).",
        )
    if len(unequal) == 1 and differing == unequal:
        return Explanation(
            cause,
            f"Join along the dimension that differs, dim={unequal[0]}, or make it equal: "
            f"{first[unequal[0]]} and {other[unequal[0]]}.",
        )
    sizes_of_both = f"{text(first)} and {text(other)}"
    return Explanation(cause, f"Make the sizes in {dimensions(unequal)} equal: {sizes_of_both}.")


def _fits(sizes: Shape, first: Shape, axis: int) -> bool:
    return all(a == b or n == axis for n, (a, b) in enumerate(zip(sizes, first, strict=True)))


def pieces(raised: Raised) -> Explanation | None:
    """Pieces of a split whose sizes do not add up."""
    match = re.search(
        r"sum exactly to (\d+).*dimension (-?\d+)\), but got split_sizes=(\[[\d, ]*\])",
        raised.message,
    )
    if not match:
        return None
    return Explanation(
        f"dimension {match[2]} has {match[1]}, the pieces {match[3]}",
        f"Choose pieces that add up to {match[1]}; chunk(n) cuts into n equal ones.",
    )

"""Tensors that are joined, and whose sizes differ elsewhere."""

from __future__ import annotations

from typing import NamedTuple

from doctor.checks.training.errors.changes import Sizes
from doctor.checks.training.errors.explanation import Explanation, Proof
from doctor.checks.training.errors.sizes import sizes_of, tensors, text
from doctor.facts.raised import Raised

JOINING = {"cat": 0, "concat": 0, "concatenate": 0, "vstack": 0, "hstack": 1, "dstack": 2,
           "stack": -1}  # fmt: skip
"""Function -> the dimension along which sizes may differ; -1: none."""


class Unequal(NamedTuple):
    """Two shapes that are joined, and the dimensions in which they may not differ."""

    first: Sizes
    other: Sizes
    dimensions: list[int]
    axis: int
    """The one in which they may; -1: none."""


def unequal(raised: Raised) -> Unequal | None:
    sizes = [sizes_of(each) for each in tensors(raised)]
    if raised.function not in JOINING or len(sizes) < 2 or not sizes[0]:
        return None
    if len({len(each) for each in sizes}) > 1:
        return None
    axis = JOINING[raised.function]
    numbers = [each.numbers[0] for each in raised.operands if each.numbers]
    if numbers and raised.function != "stack":
        axis = numbers[0] % len(sizes[0])
    for other in sizes[1:]:
        pairs = enumerate(zip(sizes[0], other, strict=True))
        if differing := [n for n, (a, b) in pairs if a != b and n != axis]:
            return Unequal(sizes[0], other, differing, axis)
    return None


def odd_images(raised: Raised) -> Explanation | None:
    """Images of nearly the same sides, as after halving and doubling an odd number."""
    if (found := unequal(raised)) is None or len(found.first) < 4:
        return None
    sides = [(found.first[n], found.other[n]) for n in found.dimensions]
    if min(found.dimensions) < 2 or any(abs(a - b) > 3 for a, b in sides):
        return None
    return Explanation(
        f"{text(found.first)} and {text(found.other)}: {max(sides[0])} is halved and doubled to "
        "another number"
    )


def joined_sizes(raised: Raised) -> Explanation | None:
    if (found := unequal(raised)) is None:
        return None
    along = f"; {raised.function} joins along dimension {found.axis}" if found.axis >= 0 else ""
    numbers = ", ".join(map(str, found.dimensions))
    return Explanation(
        f"{text(found.first)} and {text(found.other)} differ in dimension {numbers}{along}"
    )


PROOFS: dict[str, Proof] = {"odd-images": odd_images, "joined-sizes": joined_sizes}

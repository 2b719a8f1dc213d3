"""Tensors that are joined, and whose sizes differ elsewhere."""

from __future__ import annotations

from typing import NamedTuple

from doctor.checks.training.errors.changes import Sizes
from doctor.checks.training.errors.explanation import Explanation, Proof, first_of
from doctor.checks.training.errors.sizes import sizes_of, tensors, text
from doctor.checks.training.errors.views import number_of_dimensions
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


def joined_dimensions(raised: Raised) -> Explanation | None:
    """Tensors of two numbers of dimensions: one has a dimension of 1 too many, or belongs to each
    position of the other."""
    found = sorted({sizes_of(each) for each in tensors(raised)}, key=len)
    axes = [each.numbers[0] for each in raised.operands if each.numbers]
    if raised.function not in ("cat", "concat", "concatenate") or len(axes) != 1 or not found:
        return None
    small, large = found[0], found[-1]
    if len(small) == len(large) or not small:
        return None
    cause = f"{text(small)} and {text(large)} have other numbers of dimensions"
    if {len(each) for each in found} != {len(small), len(small) + 1}:
        return Explanation(cause)
    fixes = _fitting(small, large, axes[0])
    if not fixes:
        return Explanation(cause)
    behind = ", as the layer behind it expects" if len(fixes) > 1 else ""
    return Explanation(cause, f"Write {', or '.join(fixes)}{behind}.")


def _fitting(small: Sizes, large: Sizes, axis: int) -> list[str]:
    """What makes both fit: which of them is meant, the shapes do not say."""
    fixes = []
    for n in range(1, len(large)):
        rest, grown = large[:n] + large[n + 1 :], (*small[:n], 1, *small[n:])
        if _joins(large, grown, axis):
            fixes.append(f"x.unsqueeze({n}) for those of {text(small)}: {text(grown)}")
        if len(large) == 3 and large[n] == 1 and _joins(rest, small, axis):
            fixes.append(f"x.squeeze({n}) for those of {text(large)}: {text(rest)}")
    spread = (small[0], large[1], *small[1:]) if len(large) == 3 and large[1] > 1 else ()
    if spread and axis % 3 == 2 and _joins(large, spread, axis):
        fixes.append(
            f"x[:, None].expand(-1, {large[1]}, -1) for those of {text(small)}, which repeats them "
            f"at each position: {text(spread)}"
        )
    return fixes


def _joins(first: Sizes, other: Sizes, axis: int) -> bool:
    """Whether both can be joined along that dimension."""
    if not -len(first) <= axis < len(first) or len(first) != len(other):
        return False
    pairs = enumerate(zip(first, other, strict=True))
    return all(a == b for n, (a, b) in pairs if n != axis % len(first))


PROOFS: dict[str, Proof] = {
    "odd-images": odd_images,
    "joined-sizes": joined_sizes,
    "number-of-dimensions": first_of(number_of_dimensions, joined_dimensions),
}

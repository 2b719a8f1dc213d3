"""The median without `statistics`, whose import takes as long as all rules on curves."""

from __future__ import annotations

from collections.abc import Iterable


def median(values: Iterable[float]) -> float:
    """The middle value, or the mean of the two in the middle. Raises ValueError without values."""
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no median without values")
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2

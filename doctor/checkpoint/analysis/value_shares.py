"""The values of a checkpoint, read in shares by several readers, and their results as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from doctor.checkpoint.records import Large, NonFinite, Outlier, Values

T = TypeVar("T")
Record = TypeVar("Record", NonFinite, Large, Outlier)
WHOLE = (0, 1)
"""The first of one share."""
MOST, MOST_LARGE, MOST_OUTLIERS = 1000, 20, 100
"""Tensors that are listed with non-finite values, with large ones, with outliers."""


def of_share(items: Sequence[T], size: Callable[[T], int], share: tuple[int, int]) -> list[T]:
    """The items of a share: neighbours, of about the same bytes in each share, none in two."""
    index, count = share
    total, before, taken = sum(map(size, items)), 0, []
    for item in items:
        middle = before + size(item) / 2
        if min(count - 1, int(middle * count / total) if total else 0) == index:
            taken.append(item)
        before += size(item)
    return taken


def join_values(parts: Sequence[Values]) -> Values:
    """What one reader would have found, from the results of all shares in their order.

    Where a share ends within a tensor, two shares name it; it is counted once.
    """
    nonfinite = _joined((each for part in parts for each in part.nonfinite), _nonfinite)
    large = _joined((each for part in parts for each in part.large), _large)
    outliers = _joined((each for part in parts for each in part.outliers), _outlier)
    every = [each for part in parts for each in part.nonfinite]
    twice = sum(not each.masks for each in every) - sum(not each.masks for each in nonfinite)
    return msgspec.structs.replace(
        parts[0],
        bytes=sum(part.bytes for part in parts),
        nonfinite=tuple(sorted(nonfinite, key=lambda each: each.masks)[:MOST]),
        nonfinite_tensors=sum(part.nonfinite_tensors for part in parts) - twice,
        fp16_large=sum(part.fp16_large for part in parts),
        large=tuple(sorted(large, key=lambda each: -each.large)[:MOST_LARGE]),
        negative=tuple(dict.fromkeys(name for part in parts for name in part.negative)),
        outliers=tuple(outliers[:MOST_OUTLIERS]),
        damaged_records=tuple(name for part in parts for name in part.damaged_records),
        checksums=sum(part.checksums for part in parts),
        differing=tuple(file for part in parts for file in part.differing)[:MOST],
        unlike_lists=tuple(file for part in parts for file in part.unlike_lists)[:MOST],
        problems=tuple({each.file: each for part in parts for each in part.problems}.values()),
        threads=sum(part.threads for part in parts),
        seconds=max(part.seconds for part in parts),
    )


def _joined(records: Iterable[Record], both: Callable[[Any, Any], Record]) -> list[Record]:
    """One record for each tensor, in the order of the first."""
    joined: dict[tuple[str, str], Record] = {}
    for each in records:
        key = getattr(each, "file", ""), each.name
        joined[key] = both(joined[key], each) if key in joined else each
    return list(joined.values())


def _nonfinite(one: NonFinite, other: NonFinite) -> NonFinite:
    return msgspec.structs.replace(
        one,
        nan=one.nan + other.nan,
        plus_inf=one.plus_inf + other.plus_inf,
        minus_inf=one.minus_inf + other.minus_inf,
        first=min(one.first, other.first),
        masks=one.masks and other.masks,
    )


def _large(one: Large, other: Large) -> Large:
    return msgspec.structs.replace(one, large=one.large + other.large)


def _outlier(one: Outlier, other: Outlier) -> Outlier:
    return msgspec.structs.replace(
        one, values=one.values + other.values, largest=max(one.largest, other.largest)
    )

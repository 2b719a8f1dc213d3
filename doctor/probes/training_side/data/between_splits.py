"""What differs between train and eval, or is the same and should not be."""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, List, Mapping, Sequence

from ..foreign import Foreign, observing
from . import rows, shared, split_sides, two_splits
from .targets import Source


def of_sources(
    train: Source,
    other: Source,
    batches: Mapping[str, Sequence[Foreign]],
    content: rows.Content,
    classes: Counter[str],
) -> List[Dict[str, Any]]:
    """Relations of both; `classes` are those of the rows of eval."""
    found: List[Dict[str, Any]] = []
    for of_batches in (two_splits.of_batches, split_sides.of_batches):
        found += observing.attempt(
            lambda: of_batches(list(batches["train"]), list(batches["eval"])),  # noqa: B023
            [],
        )
    stated = [two_splits.stated_classes(each) for each in (train, other)]
    ours, theirs = stated if all(stated) else (content.classes, classes)
    whole = all(stated) or content.complete
    looks = (
        lambda: two_splits.of_classes(ours, theirs) if whole else None,
        lambda: two_splits.random_eval(train, other),
        lambda: two_splits.windows(train, other),
    )
    each = [observing.attempt(look, None) for look in looks]
    found += observing.attempt(lambda: shared.of_splits(train, other), [])
    return found + [one for one in each if one is not None]

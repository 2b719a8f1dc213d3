"""Names that two splits number each for itself: classes, labels, tokens."""

from __future__ import annotations

from typing import Any, Dict, Optional

from ..foreign import Foreign, observing
from .targets import Source, size

MOST = 1_000_000
LEAST_SHARED = 0.5
"""Share of the smaller numbering that both splits have. Our own number."""
DEPTH = 4


def of_splits(train: Source, other: Source) -> Optional[Dict[str, Any]]:
    """The record Numbering of the first one that differs, or of the last one that agrees; None
    where the datasets have none of one name."""
    ours, theirs = (_numberings(held_by(each)) for each in (train, other))
    record: Optional[Dict[str, Any]] = None
    for name in sorted(set(ours) & set(theirs)):
        one, two = ours[name], theirs[name]
        shared = [key for key in one if key in two]
        if not shared or len(shared) < LEAST_SHARED * min(len(one), len(two)):
            continue
        moved = [key for key in shared if one[key] != two[key]]
        record = {
            "type": "Numbering",
            "name": name[:60],
            "shared": len(shared),
            "moved": len(moved),
        }
        if moved:
            key = moved[0]
            return {**record, "example": key[:60], "numbers": (one[key], two[key])}
    return record


def held_by(source: Source) -> Foreign:
    """The dataset itself: an ImageFolder is read as a list of its files elsewhere."""
    return observing.attribute(source.items, "dataset") if source.kind == "loader" else source.items


def _numberings(dataset: Foreign) -> Dict[str, Dict[str, int]]:
    """Attribute -> name -> number, of a dataset and of those that it wraps."""
    found: Dict[str, Dict[str, int]] = {}
    for _ in range(DEPTH):
        if dataset is None or isinstance(dataset, (list, tuple)):
            break
        count = size(dataset)
        for name, value in _attributes(dataset).items():
            numbers = _numbers(value)
            if numbers and len(numbers) != count:  # else it may number the rows
                found.setdefault(name, numbers)
        dataset = observing.attribute(dataset, "dataset")
    return found


def _attributes(dataset: Foreign) -> Dict[str, Foreign]:
    held = observing.attribute(dataset, "__dict__", {})
    features = observing.attribute(dataset, "features")
    named = dict(held) if isinstance(held, dict) else {}
    if isinstance(features, dict):
        named.update({name: observing.attribute(each, "names") for name, each in features.items()})
    return named


def _numbers(value: Foreign) -> Dict[str, int]:
    """Names and their numbers, where these run without gaps; {} of anything else."""
    if isinstance(value, (list, tuple)) and 1 < len(value) < MOST:
        strings = [each for each in value if isinstance(each, str)]
        whole = len(strings) == len(value) == len(set(strings))
        return {each: n for n, each in enumerate(strings)} if whole else {}
    if not isinstance(value, dict) or not 1 < len(value) < MOST:
        return {}
    if not all(isinstance(each, str) for each in value):
        return {}
    numbers = [each for each in value.values() if type(each) is int]
    if len(numbers) < len(value) or len(set(numbers)) < len(numbers):
        return {}
    return dict(value) if max(numbers) - min(numbers) == len(numbers) - 1 else {}

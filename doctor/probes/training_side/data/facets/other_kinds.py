"""Whether datasets say that eval is of another kind on purpose: a corruption, another sensor."""

from __future__ import annotations

import re
from typing import Iterator, List, Set, Tuple

import torch

from ...foreign import Foreign, containers, observing
from ..rows import dataset_of
from ..targets import Source

CONDITION = re.compile(
    r"(?i)corrupt|severit|perturb|nois[ey]|blur|adversar|attack|domain|sensor|camera|modalit|"
    r"thermal|infrared|(?:^|[^a-z])ood(?:$|[^a-z])|shift|robust|invert|weather|occlu|"
    r"(?:cifar|imagenet)\w*?[-_](?:c|r|a|p)\b|style|sketch|hospital|scanner|device"
)
DEPTH, MOST = 4, 40
"""How deep datasets are looked into, and how many of them."""
PLAIN = (str, int, float, bool)


def stated(train: Source, other: Source) -> str:
    """What eval has by a name of a condition, and train has not; "" for nothing."""
    ours = set(words_of(dataset_of(train)))
    return next((name for name, value in words_of(dataset_of(other))
                 if (name, value) not in ours), "")  # fmt: skip


def words_of(dataset: Foreign) -> Iterator[Tuple[str, str]]:
    """Attributes of the datasets that name a condition, and classes of them that do."""
    left: List[Tuple[Foreign, int]] = [(dataset, 0)]
    seen: Set[int] = set()
    while left and len(seen) < MOST:
        value, depth = left.pop(0)
        if id(value) in seen:
            continue
        seen.add(id(value))
        kind = type(value).__name__
        if CONDITION.search(kind):
            yield kind, ""
        held = observing.attribute(value, "__dict__", {})
        for name, each in dict(held).items() if containers.is_mapping(held) else ():
            text = text_of(each)
            if text and CONDITION.search(name):
                yield name, text
            inner = list(each)[:MOST] if isinstance(each, (list, tuple)) else [each]
            nested = [one for one in inner if observing.has(one, "__getitem__")]
            left += [(one, depth + 1) for one in nested if depth < DEPTH and is_dataset(one)]


def is_dataset(value: Foreign) -> bool:
    known = (*PLAIN, list, tuple, dict, torch.Tensor)
    return not isinstance(value, known) and observing.has(value, "__len__")


def text_of(value: Foreign) -> str:
    """A plain value, or the name of a function; "" of what is off or holds more."""
    if callable(value) and not is_dataset(value):
        return str(observing.attribute(value, "__name__", type(value).__name__))
    return str(value)[:80] if isinstance(value, PLAIN) and value else ""

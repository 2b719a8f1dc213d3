"""Rows of a split in the order of its dataset, as its own collating function delivers them."""

from __future__ import annotations

import math
import re
import time
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

from ...foreign import Foreign, containers, observing
from .. import given, seeds, views
from ..documents import host
from ..mixing import NUMBER_OF_SAMPLE, SIMPLE_SAMPLERS
from ..targets import Source, as_batch, size

MOST_ROWS, BLOCK, SECONDS = 320, 32, 4.0
"""Rows that are read, the ones of a block that follow each other, and the time for it. Our own
numbers."""
MOST_VALUES = 40_000_000
"""Of all fields together."""
TARGETS = re.compile(r"(.*_)?(labels?|targets?|class|category|y)(_ids?)?", re.IGNORECASE)


class Table(NamedTuple):
    """Fields of rows, all of one length."""

    inputs: Dict[str, torch.Tensor]
    target: Optional[torch.Tensor]
    order: torch.Tensor
    """The number of each row in its dataset."""
    total: int
    """Rows of the dataset; 0: unknown."""
    text: Optional[torch.Tensor]
    """Where a field of tokens is no padding; None: not known."""

    @property
    def rows(self) -> int:
        return len(self.order)


def of_source(source: Source, batches: Sequence[Foreign] = ()) -> Optional[Table]:
    """A table of the dataset's rows; of the delivered batches where these have no number."""
    with seeds.kept():
        read, order, total = numbered(source)
    if not read:
        read, order, total = list(batches[:64]), [], 0
    return of_batches(read, order, total)


def numbered(source: Source) -> Tuple[List[Foreign], List[int], int]:
    items = source.items
    dataset = observing.attribute(items, "dataset") if source.kind == "loader" else items
    total = size(dataset) or 0
    if not total or not observing.has(dataset, "__getitem__"):
        return [], [], 0
    collate = observing.attribute(items, "collate_fn") if source.kind == "loader" else one_row
    sampler = type(observing.attribute(items, "batch_sampler")).__name__
    if not callable(collate) or (source.kind == "loader" and sampler not in SIMPLE_SAMPLERS):
        return [], [], 0
    if isinstance(dataset, torch.utils.data.IterableDataset):
        return [], [], 0
    width = observing.attribute(items, "batch_size") or BLOCK
    width = 2 ** int(math.log2(width)) if isinstance(width, int) and 1 < width < BLOCK else BLOCK
    read: List[Foreign] = []
    order: List[int] = []
    end = time.monotonic() + SECONDS
    for first in firsts(total, width):
        rows = []
        for number in range(first, min(first + width, total)):
            if time.monotonic() > end:
                return read, order, total
            rows.append(dataset[number])
        read += [collate(rows)] if collate is not one_row else [one_row(each) for each in rows]
        order += range(first, first + len(rows))
    return read, order, total


def firsts(total: int, width: int) -> List[int]:
    """The first rows of batches, which fill blocks."""
    return [
        first for start in starts(total) for first in range(start, min(start + BLOCK, total), width)
    ]


def starts(total: int) -> Sequence[int]:
    """Where blocks begin: all rows, or blocks from all over the dataset."""
    if total <= MOST_ROWS:
        return range(0, total, BLOCK)
    count = MOST_ROWS // BLOCK
    return [n * (total - BLOCK) // (count - 1) for n in range(count)]


def one_row(row: Foreign) -> Foreign:
    return as_batch(row)


def of_batches(read: List[Foreign], order: List[int], total: int) -> Optional[Table]:
    fields: Dict[str, List[torch.Tensor]] = {}
    label: Optional[str] = None
    values = rows = 0
    for raw in read:
        batch = views.of(raw)
        named = {n: host(e) for n, e in containers.tensors(batch).items() if e.dim()}
        label = label or given.label_name(batch, named)
        count = length_of(named, label)
        values += sum(each.numel() for each in named.values())
        if not count or rows >= MOST_ROWS or values > MOST_VALUES:
            break
        rows += count
        for name, each in named.items():
            if len(each) == count:
                fields.setdefault(name, []).append(each)
    joined = {name: together(parts) for name, parts in fields.items()}
    whole = {n: e for n, e in joined.items() if e is not None}
    most = max((len(each) for each in whole.values()), default=0)
    whole = {n: e for n, e in whole.items() if len(e) == most}
    if most < BLOCK:
        return None
    if len(order) != most:
        order, total = list(range(most)), 0
    inputs = {n: e for n, e in whole.items() if is_input(n, label or "")}
    target = whole.get(label) if label is not None else None
    return Table(inputs, target, torch.tensor(order), total, whole.get("attention_mask"))


def length_of(named: Dict[str, torch.Tensor], label: Optional[str]) -> int:
    """Rows of a batch: those of its labels, else of its first field."""
    if label in named:
        return len(named[label])
    return len(next(iter(named.values()))) if named else 0


def is_input(name: str, label: str) -> bool:
    last = re.split(r"[.\[]", name)[0] or name
    if name == label or "mask" in name.lower() or NUMBER_OF_SAMPLE.fullmatch(last.lower()):
        return False
    return not TARGETS.fullmatch(name.split(".")[-1])


def together(parts: List[torch.Tensor]) -> Optional[torch.Tensor]:
    """Fields of several batches as one; sequences of other lengths are filled with 0."""
    if len({each.dim() for each in parts}) > 1 or len({each.dtype for each in parts}) > 1:
        return None
    shapes = {each.shape[1:] for each in parts}
    if len(shapes) == 1:
        return torch.cat(parts)
    if len({shape[1:] for shape in shapes}) > 1 or parts[0].dim() > 3:
        return None
    longest = max(each.shape[1] for each in parts)
    made = parts[0].new_zeros((sum(map(len, parts)), longest, *parts[0].shape[2:]))
    at = 0
    for each in parts:
        made[at : at + len(each), : each.shape[1]] = each
        at += len(each)
    return made

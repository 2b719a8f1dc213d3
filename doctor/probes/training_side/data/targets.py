"""What a target holds: loaders and datasets, and what belongs to them."""

from __future__ import annotations

from typing import Any, Callable, Iterator, List, NamedTuple, Optional, Sequence

import torch

from ..foreign import Foreign, containers, observing
from ..subject import loaders


class NotData(Exception):
    """The target holds no data; the message says what it is. `reason` as doctor.facts.data.Problem
    has it."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class Source(NamedTuple):
    """A split: its loader, or its rows."""

    name: str
    kind: str
    items: Foreign
    """A loader of batches, or a dataset or an iterable of rows."""
    total: Optional[int] = None

    @property
    def by_row(self) -> bool:
        return self.kind != "loader"


class Opened(NamedTuple):
    """The splits of a target, and what else it holds."""

    sources: List[Source]
    module: Optional[torch.nn.Module] = None
    loss: Optional[Callable[[Any, Any], torch.Tensor]] = None
    tokenizer: Foreign = None
    trainer: Foreign = None
    collator: Foreign = None
    criterion: Foreign = None
    """A loss that is a module, as torch.nn.CTCLoss."""


def is_data(value: Foreign) -> bool:
    return isinstance(value, torch.utils.data.Dataset) or observing.has(value, "__iter__") or (
        observing.has(value, "__getitem__") and observing.has(value, "__len__")
    )  # fmt: skip


def is_batch(value: Foreign) -> bool:
    """Whether it is one batch: a mapping of tensors."""
    return are_tensors(list(value.values()))


def are_tensors(values: Sequence[Any]) -> bool:
    return bool(values) and all(isinstance(each, torch.Tensor) for each in values)


def source(name: str, value: Foreign, collate: Foreign = None) -> Source:
    """The split in a loader, a dataset or an iterable. Raises NotData."""
    if containers.is_mapping(value) and is_batch(value):
        return Source(name, "loader", [value])
    if isinstance(value, torch.Tensor):
        return Source(name, "loader", [value])
    if not is_data(value):
        raise NotData("%s of the class %s, which gives no rows" % (name, type(value).__name__))
    dataset = observing.attribute(value, "dataset")
    if dataset is not None and observing.has(value, "__iter__"):
        return Source(name, "loader", value, size(dataset))
    if isinstance(value, torch.utils.data.Dataset) or _is_rows(value):
        if callable(collate):
            loader = torch.utils.data.DataLoader(value, batch_size=8, collate_fn=collate)
            return Source(name, "loader", loader, size(value))
        return Source(name, "dataset", value, size(value))
    return Source(name, "loader", value)


def _is_rows(value: Foreign) -> bool:
    """Whether its items are rows: a list of dicts of plain values, a `datasets` object."""
    if observing.has(value, "column_names") or observing.has(value, "features"):
        return True
    if not isinstance(value, (list, tuple)) or not value:
        return False
    first = value[0]
    return containers.is_mapping(first) and not is_batch(first)


def size(dataset: Foreign) -> Optional[int]:
    length = observing.attempt(lambda: len(dataset), None)
    return length if isinstance(length, int) else None


def items_of(source: Source) -> Iterator[Foreign]:
    """Batches of a loader; rows of a dataset, as batches of one."""
    value = source.items
    if source.kind == "loader":
        yield from loaders.iterator(value)
    elif observing.has(value, "__getitem__") and size(value) is not None:
        for index in range(size(value) or 0):
            yield as_batch(value[index])
    else:
        for row in value:
            yield as_batch(row)


def as_batch(row: Foreign) -> Foreign:
    """A row as a batch of one; lists of numbers become tensors."""
    if containers.is_mapping(row):
        return {str(name): _as_tensor(each) for name, each in row.items()}
    if isinstance(row, (tuple, list)) and row and not isinstance(row[0], str):
        return tuple(_as_tensor(each) for each in row)
    return _as_tensor(row)


def _as_tensor(value: Foreign) -> Foreign:
    if isinstance(value, torch.Tensor):
        return value[None]
    if isinstance(value, (int, float)):
        return torch.tensor([value])
    if isinstance(value, list) and value and isinstance(value[0], (int, float)):
        return observing.attempt(lambda: torch.tensor([value]), value)
    if observing.has(value, "__array_interface__"):
        return observing.attempt(lambda: torch.as_tensor(value)[None], value)
    return value

"""A few rows of a batch, copied: host tensors alone, very long rows in part."""

from __future__ import annotations

import dataclasses
from types import ModuleType
from typing import TYPE_CHECKING, Iterator, NamedTuple

from .foreign import Foreign

if TYPE_CHECKING:
    from torch import Tensor

MOST_ROWS = 8
"""Of a batch."""
MOST_VALUES = 2**18
"""Of a row, more than an image of 224 x 224 has."""
MOST_COPIED = 3 * 2**17
"""Of the rows of a tensor, from which on fewer rows are copied."""
MOST_TOKENS = 4096
MOST_LEAVES = 16
DEPTH = 3


class Sample(NamedTuple):
    """The same containers as the batch, plain ones, with these of its `of` rows.

    `whole`: with all values of every row; else equal rows may differ in what was left out.
    """

    batch: Foreign
    rows: range
    of: int
    whole: bool


class NotReadError(Exception):
    """Why a batch is not looked at."""


def sample(torch: ModuleType, data: Foreign) -> Sample:
    """Rows spread over the batch. Raises NotReadError."""
    tensors = list(_tensors(torch, data, DEPTH))
    of = next((tensor.shape[0] for tensor in tensors if tensor.dim()), 0)
    if not of:
        raise NotReadError("its batches have no tensors with rows")
    longest = max(_values_of_a_row(torch, tensor, of) for tensor in tensors)
    most = min(MOST_ROWS, MOST_COPIED // max(1, min(longest, MOST_VALUES)))
    rows = range(0, of, -(-of // most))
    left_out = any(_is_left_out(torch, tensor) for tensor in tensors)
    whole = longest <= MOST_VALUES and not left_out
    return Sample(_copied(torch, data, rows, of, DEPTH), rows, of, whole)


def members(data: Foreign) -> list[tuple[Foreign, Foreign]]:
    """Names or positions and values of a mapping, a sequence or a dataclass."""
    if hasattr(data, "items") and hasattr(data, "keys"):
        return list(data.items())[:MOST_LEAVES]
    if isinstance(data, (list, tuple)):
        return list(enumerate(data[:MOST_LEAVES]))
    if dataclasses.is_dataclass(data) and not isinstance(data, type):
        return [(each.name, getattr(data, each.name)) for each in dataclasses.fields(data)]
    return []


def _tensors(torch: ModuleType, data: Foreign, depth: int) -> Iterator[Tensor]:
    if isinstance(data, torch.Tensor):
        yield data
    elif depth:
        for _, value in members(data):
            yield from _tensors(torch, value, depth - 1)


def _copied(torch: ModuleType, data: Foreign, rows: range, of: int, depth: int) -> Foreign:
    if isinstance(data, torch.Tensor):
        return _values(torch, data, rows, of)
    inner = [(k, _copied(torch, v, rows, of, depth - 1)) for k, v in members(data)] if depth else []
    if isinstance(data, tuple):
        return tuple(value for _, value in inner)
    if isinstance(data, list):
        return [value for _, value in inner]
    return {str(name): value for name, value in inner} if inner else None


def _values_of_a_row(torch: ModuleType, tensor: Tensor, of: int) -> int:
    """0 for a tensor that is left out."""
    if _is_left_out(torch, tensor):
        return 0
    return _product(list(tensor.shape)[tensor.dim() > 0 and tensor.shape[0] == of :])


def _is_left_out(torch: ModuleType, tensor: Tensor) -> bool:
    if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_quantized:
        return True
    tokens = tensor.dim() == 2 and not tensor.is_floating_point()
    return tokens and tensor.shape[1] > MOST_TOKENS


def _values(torch: ModuleType, tensor: Tensor, rows: range, of: int) -> Foreign:
    """The rows of a tensor, every second, third, ... value along its longest axes; None for rows of
    tokens that are too long, whose labels would be in what is left out. Raises NotReadError."""
    if tensor.device.type != "cpu":
        raise NotReadError("its batches are on the device")
    if _is_left_out(torch, tensor):
        return None
    with torch._C.DisableTorchFunctionSubclass():
        value: Tensor = tensor.detach().as_subclass(torch.Tensor)
    steps = [1] * value.dim()
    first = 0
    if value.dim() and value.shape[0] == of:
        value, first = value[:: rows.step], 1
    sizes = list(value.shape)
    while _product(sizes[first:]) > MOST_VALUES:
        axis = max(range(first, len(sizes)), key=sizes.__getitem__)
        steps[axis] += 1
        sizes[axis] = -(-value.shape[axis] // steps[axis])
    return value[tuple(slice(None, None, step) for step in steps)].clone()


def _product(sizes: list[int]) -> int:
    product = 1
    for size in sizes:
        product *= size
    return product

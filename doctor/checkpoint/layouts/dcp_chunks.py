"""The chunks in which torch.distributed.checkpoint keeps a tensor, put together."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import msgspec

from doctor._util.units import shown
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.tensors import Part, Tensor

MOST_ROWS = 1 << 14
"""Parts of one tensor: what is divided along an inner dimension is a part for every row."""


class Item(NamedTuple):
    """One chunk of a tensor, or one pickled object: where it lies."""

    name: str
    offsets: tuple[int, ...]
    file: str
    begin: int
    length: int


class StoredTensor(NamedTuple):
    """A tensor as .metadata describes it; `shape` is None for an object that is no tensor."""

    name: str
    path: tuple[Any, ...]
    shape: tuple[int, ...] | None
    chunks: dict[tuple[int, ...], tuple[int, ...]]
    """Offsets -> sizes."""


def assemble(stored: StoredTensor, pieces: list[tuple[Item, Tensor]]) -> tuple[Tensor, bool]:
    """The chunks as one tensor, and whether they are in C order.

    Raises CheckpointError where they do not make the whole.
    """
    shape = stored.shape or ()
    pieces.sort(key=lambda piece: piece[0].offsets)
    name, elements = stored.name, math.prod(shape)
    dtypes = {tensor.dtype for _, tensor in pieces}
    if len(dtypes) > 1:
        raise CheckpointError(
            "damaged", f"has chunks of {shown(name)} in {' and '.join(sorted(dtypes))}"
        )
    for item, tensor in pieces:
        sizes = stored.chunks.get(item.offsets) if item.offsets or not shape else tensor.shape
        if sizes != tensor.shape or len(tensor.shape) != len(shape):
            text = f"describes a chunk of {shown(name)} otherwise than it is stored: "
            raise CheckpointError("damaged", f"{text}{list(tensor.shape)[:10]}")
    if sum(tensor.elements for _, tensor in pieces) != elements:
        raise CheckpointError("damaged", f"does not have all chunks of {shown(name)}")
    first = pieces[0][1]
    if len(pieces) > 1 and any(len(item.offsets) != len(shape) for item, _ in pieces):
        raise CheckpointError("damaged", f"puts chunks of {shown(name)} at no place of it")
    if len(pieces) == 1:
        return msgspec.structs.replace(first, name=name, shape=shape, elements=elements), True
    parts, ordered = _parts(shape, pieces)
    begin = parts[0]
    whole = Tensor(name, first.dtype, shape, elements, *begin, None, parts)
    return whole, ordered


def _parts(
    shape: tuple[int, ...], pieces: list[tuple[Item, Tensor]]
) -> tuple[tuple[Part, ...], bool]:
    """Ranges in C order where that is possible in a bounded number of them; else chunk by chunk."""
    whole = tuple(Part(tensor.file, tensor.begin, tensor.end) for _, tensor in pieces)
    if any(tensor.strides is not None for _, tensor in pieces):
        return whole, False
    if all(tensor.shape[1:] == shape[1:] for _, tensor in pieces):
        return whole, True
    if len(shape) != 2 or sum(tensor.shape[0] for _, tensor in pieces) > MOST_ROWS:
        return whole, False
    rows: list[tuple[tuple[int, ...], Part]] = []
    for item, tensor in pieces:
        height, width = tensor.shape
        size = (tensor.end - tensor.begin) // height if height else 0
        top, first_column = item.offsets
        for row in range(height if width else 0):
            begin = tensor.begin + row * size
            rows.append(((top + row, first_column), Part(tensor.file, begin, begin + size)))
    return tuple(part for _, part in sorted(rows)) or whole, True

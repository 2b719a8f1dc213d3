"""The bytes of norms, compared with those of an initial value."""

from __future__ import annotations

import struct
from typing import Literal

from doctor.checkpoint.files import Source, Wrong
from doctor.checkpoint.names import is_norm
from doctor.checkpoint.tensors import Shard, Tensor
from doctor.sections import Norm

ONE = {
    "BF16": b"\x80\x3f",
    "F16": struct.pack("<e", 1.0),
    "F32": struct.pack("<f", 1.0),
    "F64": struct.pack("<d", 1.0),
}

LARGEST = 1 << 24
"""Bytes; what claims to be a longer norm is not read."""

MOST = 20_000
"""Norms that are read of one file; one more stands for those that are not."""


def read_norms(source: Source, shard: Shard) -> list[Norm]:
    """Every norm of an open file."""
    found = [tensor for tensor in shard.tensors if is_norm(tensor)]
    return [
        Norm(
            name=tensor.name[:500],
            dtype=tensor.dtype,
            size=tensor.elements,
            value=_value(source, tensor) if number < MOST else "unread",
        )
        for number, tensor in enumerate(found[: MOST + 1])
    ]


def _value(source: Source, tensor: Tensor) -> Literal["ones", "zeros", "other", "unread"]:
    length = tensor.end - tensor.begin
    if length > LARGEST:
        return "unread"
    try:
        data = source.read(length, tensor.begin)
    except Wrong:
        return "unread"
    if len(data) != length:
        return "unread"
    if data == ONE[tensor.dtype] * tensor.elements:
        return "ones"
    return "other" if data.strip(b"\0") else "zeros"

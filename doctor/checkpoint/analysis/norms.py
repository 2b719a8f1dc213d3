"""The bytes of norms, compared with those of an initial value."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable
from typing import Literal

from doctor.checkpoint.analysis.float_decode import floats
from doctor.checkpoint.analysis.tensor_names import is_initialized_to_one, is_norm, numbered_norms
from doctor.checkpoint.dtypes import BITS
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.files import Directory, Source, prefetch
from doctor.checkpoint.io.open_files import OpenFiles
from doctor.checkpoint.records import Norm
from doctor.checkpoint.tensors import Tensor

ONE = {
    "BF16": b"\x80\x3f",
    "F16": struct.pack("<e", 1.0),
    "F32": struct.pack("<f", 1.0),
    "F64": struct.pack("<d", 1.0),
}

LARGEST = 1 << 24
"""Bytes; what claims to be a longer norm is not read."""

FIRST = 512
"""Bytes that are read of a norm that moved; all are read where these have an initial value."""

MOST = 20_000
"""Norms that are read of one file; one more represents those that are not read."""

Value = Literal["ones", "zeros", "other", "nonfinite", "unread"]

INFINITE = {
    "BF16": frozenset((0x7F, 0xFF)),
    "F16": frozenset((*range(0x7C, 0x80), *range(0xFC, 0x100))),
    "F32": frozenset((0x7F, 0xFF)),
    "F64": frozenset((0x7F, 0xFF)),
}
"""Highest bytes that a NaN or an Inf may have, and some of the largest finite values."""


def read_vectors(source: Source, tensors: Iterable[Tensor]) -> tuple[list[Norm], list[Norm]]:
    """The norms of an open file, and its other parameters whose initial value is 1.0."""
    norms, at_one = _vectors(tensors)
    return _read(source, norms), _read(source, at_one)


def read_scattered(
    directory: Directory, tensors: Iterable[Tensor]
) -> tuple[list[Norm], list[Norm]]:
    """The same of tensors that lie in any of the files of a directory, whole or in parts."""
    norms, at_one = _vectors(tensors)
    norm_of: dict[Tensor, Norm] = {}
    with OpenFiles(directory) as files:
        for tensor in sorted((*norms, *at_one), key=lambda each: (each.file, each.begin))[:MOST]:
            norm_of[tensor] = _norm(tensor, *_examined(files.source, tensor))
    return (
        [norm_of.get(tensor) or _norm(tensor, "unread") for tensor in norms[: MOST + 1]],
        [norm_of.get(tensor) or _norm(tensor, "unread") for tensor in at_one[: MOST + 1]],
    )


def read_initial(directory: Directory, vectors: Iterable[Tensor]) -> list[Value]:
    """Each of these vectors beside all ones and all zeros."""
    with OpenFiles(directory) as files:
        return [_value(files.source, each) if each.dtype in ONE else "unread" for each in vectors]


def _vectors(tensors: Iterable[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Norms, and others that are at_one at 1.0; matrices are passed over without a look."""
    vectors = [each for each in tensors if each.elements in each.shape or not each.shape]
    numbered = numbered_norms(each for each in vectors if len(each.shape) == 1)
    norms: list[Tensor] = []
    others: list[Tensor] = []
    for tensor in vectors:
        norm = is_norm(tensor) or tensor.name in numbered
        (norms if norm else others).append(tensor)
    return norms, [tensor for tensor in others if is_initialized_to_one(tensor)]


def _read(source: Source, vectors: list[Tensor]) -> list[Norm]:
    short = [tensor for tensor in vectors[:MOST] if tensor.end - tensor.begin <= LARGEST]
    prefetch(source, [(tensor.begin, tensor.end) for tensor in short])
    return [
        _norm(tensor, *(_examined(lambda file: source, tensor) if number < MOST else ("unread",)))
        for number, tensor in enumerate(vectors[: MOST + 1])
    ]


def _norm(tensor: Tensor, value: Value, distance: float | None = None) -> Norm:
    return Norm(
        name=tensor.name[:500],
        dtype=tensor.dtype,
        size=tensor.elements,
        value=value,
        distance=distance,
    )


def _value(source: Callable[[str], Source], tensor: Tensor) -> Value:
    return _examined(source, tensor)[0]


def _examined(source: Callable[[str], Source], tensor: Tensor) -> tuple[Value, float | None]:
    """Compared with all ones and all zeros, bit for bit; its first bytes mostly decide.

    With the largest distance from 1.0 of these bytes, where it is neither."""
    if tensor.elements * BITS[tensor.dtype] // 8 > LARGEST:
        return "unread", None
    try:
        if tensor.parts or tensor.strides is not None:
            data, partial = _gathered(source, tensor), False
        else:
            data, partial = _begun(source(tensor.file), tensor)
    except CheckpointError:
        return "unread", None
    one = ONE[tensor.dtype]
    if len(data) != tensor.elements * len(one) and not partial:
        return "unread", None
    if data == one * tensor.elements:
        return "ones", None
    if not partial and not data.strip(b"\0"):
        return "zeros", None
    if not _finite(data, tensor.dtype):
        return "nonfinite", None
    return "other", max(abs(value - 1) for value in floats(tensor.dtype, data[:FIRST]))


def _finite(data: bytes, dtype: str) -> bool:
    """Whether no value is NaN or Inf. Few highest bytes are possible, so those decide mostly."""
    width = len(ONE[dtype])
    top = data[width - 1 :: width]
    if not INFINITE[dtype].intersection(top):
        return True
    return all(map(math.isfinite, floats(dtype, data)))


def _begun(source: Source, tensor: Tensor) -> tuple[bytes, bool]:
    """All bytes of a tensor, or its first and True where these are neither ones nor zeros.

    Raises CheckpointError.
    """
    length, one = tensor.end - tensor.begin, ONE[tensor.dtype]
    short = min(length, FIRST)
    data = source.read(short, tensor.begin)
    if len(data) == short and data != one * (short // len(one)) and data.strip(b"\0"):
        return data, True
    if length > LARGEST:
        return b"", False
    return data + source.read(length - len(data), tensor.begin + len(data)), False


def _gathered(source: Callable[[str], Source], tensor: Tensor) -> bytes:
    """Bytes of a vector that lies in parts or with a step between its elements.

    Raises CheckpointError.
    """
    if tensor.strides is None:
        return b"".join(
            source(part.file).read(part.end - part.begin, part.begin) for part in tensor.parts
        )
    width = BITS[tensor.dtype] // 8
    lengths = zip(tensor.shape, tensor.strides, strict=True)
    step = max((stride for length, stride in lengths if length > 1), default=1)
    part = tensor.ranges[0]
    if len(tensor.parts) > 1 or step * width * (tensor.elements - 1) > LARGEST:
        return b""
    data = source(part.file).read((step * (tensor.elements - 1) + 1) * width, part.begin)
    if len(data) != (step * (tensor.elements - 1) + 1) * width:
        return b""
    return b"".join(
        data[place * step * width : place * step * width + width]
        for place in range(tensor.elements)
    )

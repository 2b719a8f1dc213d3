"""The value of a tensor of one element, such as a step count."""

from __future__ import annotations

import contextlib
import struct

from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.files import Source
from doctor.checkpoint.tensors import Tensor

_FORMATS = {"F32": "<f", "F64": "<d", "F16": "<e", "I64": "<q", "I32": "<i", "U8": "<B"}


def is_scalar(tensor: Tensor) -> bool:
    """Whether `read_scalar` can read it."""
    return tensor.elements == 1 and tensor.dtype in _FORMATS


def scalar_bytes(tensor: Tensor) -> tuple[int, int]:
    """Where the bytes of a scalar begin and end."""
    return tensor.begin, tensor.begin + struct.calcsize(_FORMATS[tensor.dtype])


def read_scalar(source: Source, tensor: Tensor) -> float | None:
    """The number, which can be non-finite; None where it cannot be read."""
    if not is_scalar(tensor):
        return None
    form = _FORMATS[tensor.dtype]
    with contextlib.suppress(CheckpointError, struct.error):
        return float(struct.unpack(form, source.read(struct.calcsize(form), tensor.begin))[0])
    return None

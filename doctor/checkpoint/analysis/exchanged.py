"""Tensors that hold the values of another tensor of the other checkpoint."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

from doctor.checkpoint.analysis.equality import compare_tensors
from doctor.checkpoint.dtypes import BITS
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.files import Directory
from doctor.checkpoint.io.gather import fill
from doctor.checkpoint.io.open_files import OpenFiles
from doctor.checkpoint.tensors import Tensor

BEGIN = 4096
"""Bytes by which a tensor is looked up."""

MOST = 20

Key = tuple[str, tuple[int, ...], bytes]


def find_exchanged(
    one: Directory, unlike: Sequence[Tensor], other: Directory, candidates: Iterable[Tensor]
) -> dict[str, str]:
    """Name of an unlike matrix -> the candidate that is equal to it, byte for byte."""
    shapes = {(tensor.dtype, tensor.shape) for tensor in unlike if len(tensor.shape) > 1}
    chosen = [each for each in candidates if (each.dtype, each.shape) in shapes]
    found: dict[str, str] = {}
    with OpenFiles(one) as files, OpenFiles(other) as other_files:
        known: dict[Key, Tensor] = {}
        for tensor in chosen:
            if key := _key(other_files, tensor):
                known.setdefault(key, tensor)
        for tensor in unlike[:MOST]:
            key = _key(files, tensor)
            same = known.get(key) if key else None
            with contextlib.suppress(CheckpointError):
                if same and compare_tensors(files, tensor, other_files, same).outcome == "equal":
                    found[tensor.name] = same.name
    return found


def _key(files: OpenFiles, tensor: Tensor) -> Key | None:
    """Dtype, shape and first bytes; None where these say nothing or cannot be read."""
    if tensor.strides is not None or tensor.dtype not in BITS:
        return None
    data = bytearray(min(BEGIN, tensor.elements * BITS[tensor.dtype] // 8))
    with contextlib.suppress(CheckpointError):
        fill(files, tensor.ranges, data, 0)
        return (tensor.dtype, tensor.shape, bytes(data)) if len(set(data)) > 1 else None
    return None

"""Causal masks, known by their values: -inf on one side of a diagonal of a square, 0 elsewhere."""

from __future__ import annotations

from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.files import Directory
from doctor.checkpoint.tensors import Tensor

LARGEST = 256 << 20
"""Bytes of a tensor that is read again: a mask of 8,192 positions in fp32."""

SIZES = {"BF16": 2, "F16": 2, "F32": 4, "F64": 8}
MINUS_INF = {"BF16": 0xFF80, "F16": 0xFC00, "F32": 0xFF80_0000, "F64": 0xFFF0_0000_0000_0000}
"""Bits of -inf."""


def is_causal(directory: Directory, tensor: Tensor) -> bool:
    """Whether each square [..., n, n] of a tensor is a causal mask of at least two positions.

    Rows are equal to those of torch.triu or torch.tril of a diagonal: nothing but 0 and -inf.
    """
    size = SIZES.get(tensor.dtype, 0)
    square = len(tensor.shape) > 1 and tensor.shape[-1] == tensor.shape[-2] > 1
    plain = tensor.strides is None and not tensor.parts and tensor.stored_bytes <= LARGEST
    if not (size and square and plain and tensor.stored_bytes == tensor.elements * size):
        return False
    try:
        with directory.open(tensor.file) as source:
            data = source.read(tensor.stored_bytes, tensor.begin)
    except CheckpointError:
        return False
    if len(data) != tensor.stored_bytes:
        return False
    import numpy

    count = tensor.shape[-1]
    values = numpy.frombuffer(data, f"<u{size}").reshape(-1, count, count)
    masked = values == MINUS_INF[tensor.dtype]
    if values[~masked].any() or (masked != masked[:1]).any():  # -0.0 is another code than 0
        return False
    return any(
        (masked[0] == side(numpy.ones((count, count), dtype=bool), k)).all()
        for side, k in ((numpy.triu, 1), (numpy.triu, 0), (numpy.tril, -1), (numpy.tril, 0))
    )

"""Which numbers of a storage belong to a tensor that steps over it, and where in the tensor."""

from __future__ import annotations

from typing import Any

from doctor.checkpoint.tensors import Tensor


def places(tensor: Tensor, begin: int, count: int) -> tuple[Any, Any]:
    """For so many numbers from the `begin`th on: whether each is the tensor's, and its place in it.

    Where the steps lead to one number by two ways, all are taken for the tensor's.
    """
    import numpy

    rest = numpy.arange(begin, begin + count)
    belongs, place = numpy.ones(count, bool), numpy.zeros(count, numpy.int64)
    steps = _steps(tensor)
    if steps is None:
        return belongs, rest
    for stride, length, inner in steps:
        index = rest // stride
        belongs &= index < length
        rest -= index * stride
        place += index * inner
    return belongs & (rest == 0), place


def _steps(tensor: Tensor) -> list[tuple[int, int, int]] | None:
    """(stride, length, stride in C order), the widest first; None where steps meet."""
    inner, steps = 1, []
    for stride, length in zip(reversed(tensor.strides or ()), reversed(tensor.shape), strict=True):
        if length > 1 and stride:
            steps.append((stride, length, inner))
        inner *= length
    steps.sort()
    reached = 0
    for stride, length, _ in steps:
        if stride <= reached:
            return None
        reached += stride * (length - 1)
    return steps[::-1]

"""Running statistics of batch norms: whether a model's are still those that it began with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from doctor.checkpoint.analysis.norms import read_initial
from doctor.checkpoint.io.files import Directory
from doctor.checkpoint.records import BatchStatistics
from doctor.checkpoint.tensors import Tensor

COPY = re.compile(
    r"(?:.*[._])?(?:ema|avg|averaged?|mean|swa|shadow|teacher|target|momentum|polyak|"
    r"key)(?:[._].*)?"
)
"""Names of further models that follow the trained one."""

MOST = 500
"""Layers of one model that are read."""


def read_statistics(
    directory: Directory, tensors: Iterable[Tensor], further: Iterable[Tensor]
) -> tuple[BatchStatistics, ...]:
    """One for the model and one for each copy of it; () without batch norms.

    `further` are tensors of other state_dicts in the files, below the names of these.
    """
    vectors = {
        tensor.name: tensor
        for tensor in (*tensors, *further)
        if tensor.name.endswith(("running_mean", "running_var")) and len(tensor.shape) == 1
    }
    apart = {tensor.name.partition(".")[0] for tensor in further}
    states: dict[str, list[tuple[Tensor, Tensor]]] = {}
    for name, mean in vectors.items():
        variance = vectors.get(f"{name.removesuffix('mean')}var")
        if name.endswith("mean") and variance is not None:
            first = name.partition(".")[0]
            state = first if first in apart or COPY.fullmatch(first.casefold()) else ""
            states.setdefault(state, []).append((mean, variance))
    return tuple(
        BatchStatistics(
            state=state[:100],
            copy=bool(COPY.fullmatch(state.casefold())),
            layers=len(layers[:MOST]),
            initial=_initial(directory, layers[:MOST]),
        )
        for state, layers in states.items()
    )


def _initial(directory: Directory, layers: Sequence[tuple[Tensor, Tensor]]) -> int:
    """Layers with a mean of zeros and a variance of ones."""
    values = read_initial(directory, [tensor for layer in layers for tensor in layer])
    pairs = zip(values[::2], values[1::2], strict=True)
    return sum(pair == ("zeros", "ones") for pair in pairs)

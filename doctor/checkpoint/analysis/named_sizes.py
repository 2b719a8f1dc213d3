"""Sizes that a torch file names in its settings, beside the shapes of its tensors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from doctor._util.units import shown
from doctor.checkpoint.tensors import Shard

FEWEST = 3
"""Below it a size may be one output: two classes, one channel."""

OUTPUTS = re.compile(r"class|label|output")
HEAD = re.compile(r"head|cls|class|logit|fc|pred|output|final|proj_out")
"""In names of the layers that give the outputs."""


def without_dimension(shards: Sequence[Shard]) -> dict[str, Any]:
    """Fields of ModelConfig: settings of which no tensor has a dimension, one more or less (a class
    for the background), nor a multiple of it: of outputs in a head, of inputs anywhere."""
    if len(shards) != 1 or not shards[0].named_sizes or not shards[0].readable:
        return {}
    tensors = shards[0].tensors
    matrices = [tensor for tensor in tensors if len(tensor.shape) > 1]
    if not matrices:
        return {}
    last = max(matrices, key=lambda tensor: tensor.begin)
    dimensions = {size for tensor in tensors for size in tensor.shape}
    heads = [tensor for tensor in matrices if tensor is last or HEAD.search(tensor.name)]
    rows = [tensor.shape[0] for tensor in heads]
    unmatched = {
        shown(name, 100): value
        for name, value in shards[0].named_sizes.items()
        if value >= FEWEST and not {value - 1, value, value + 1} & dimensions
        and not any(size % value == 0 for size in (rows if OUTPUTS.search(name) else dimensions))
        and not ("vocab" in name and any(value <= size <= 2 * value for size in dimensions))
    }  # fmt: skip
    if not unmatched:
        return {}
    return {"unmatched": unmatched, "last_matrix": (shown(last.name, 100), last.shape[0])}

"""Layers that are copies of other layers."""

from __future__ import annotations

import re
from collections import Counter

from doctor.checkpoint.records import Values

LAYER = re.compile(r"(?:(?<=\.)|^)(\d+)(?=\.)")
"""The number of a layer in a tensor's name."""

MOST_OF_LAYER, MOST_COPIED = 0.9, 0.34
"""Share of a layer's matrices that are copies, and of the layers that are, beyond which a model was
made so: by repeating layers. Our own numbers."""

LAYER_FIX = (
    "Convert or merge again with the number of each layer: a loop that reads one layer twice loses "
    "the other. If the model was made deeper by repeating layers and is not trained yet, or shares "
    "them, nothing is wrong."
)


def whole_layer(values: Values) -> str:
    """A layer of which every matrix is a copy of another layer's, where other layers differ."""
    pairs = Counter(filter(None, (_layers(copy.name, copy.of) for copy in values.copies)))
    copied = {here for here, _ in pairs}
    layers = {row.layer for row in values.layers if row.layer}
    for (here, there), count in pairs.items():
        matrices = sum(
            row.tensors for row in values.layers if row.layer == here and row.kind != "norm"
        )
        if count >= max(MOST_OF_LAYER * matrices, 2) and len(copied) <= MOST_COPIED * len(layers):
            return f"layer {here} is a copy of layer {there}: {count:,} matrices are equal in bits"
    return ""


def _layers(name: str, of: str) -> tuple[str, str] | None:
    """The numbers of two layers, of which the tensors of these names are the same part."""
    here, there = LAYER.search(name), LAYER.search(of)
    if here is None or there is None or here[1] == there[1]:
        return None
    same = LAYER.sub("#", name, count=1) == LAYER.sub("#", of, count=1)
    return (here[1], there[1]) if same else None

"""What relations rest on, where it is more than what their check cites."""

from __future__ import annotations

from collections.abc import Mapping

from doctor.facts.data_rows import RelationKind

BY_SOURCE: Mapping[str, tuple[RelationKind, ...]] = {
    "torch-samplers": ("weights short", "weights of other rows"),
    "torch-cross-entropy": ("weights inverted", "targets no shares"),
    "torch-bce-logits": ("positive weight inverted", "targets no probabilities"),
    "torch-embedding": ("row beyond table", "padding is target"),
    "torch-multihead": ("attention on padding",),
    "torchvision-masks": (
        "points not swapped", "direction kept", "boxes in a corner", "boxes in padding",
    ),
    "transformers-token-classification": (
        "tags cross words", "tags end early", "tag on special",
    ),
    "transformers-tokenizer": ("special predicted",),
    "transformers-encoder-decoder": ("start twice",),
    "transformers-training-args": ("column removed",),
    "gymnasium-interface": ("end not marked", "end marked late", "next state of another episode"),
    "sklearn-pitfalls": ("scaled apart", "fitted on eval"),
}  # fmt: skip
"""Ids of sources, and the kinds that each of them is about."""


def cited(kind: RelationKind) -> tuple[str, ...]:
    return tuple(source for source, kinds in BY_SOURCE.items() if kind in kinds)

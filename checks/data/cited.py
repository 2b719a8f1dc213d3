"""What relations rest on, where it is more than what their check cites."""

from __future__ import annotations

from collections.abc import Mapping

from doctor.facts.data_rows import RelationKind

BY_SOURCE: Mapping[str, tuple[RelationKind, ...]] = {
    "torch-samplers": ("weights short",),
    "torch-cross-entropy": ("targets no shares",),
    "torch-bce-logits": ("targets no probabilities",),
    "torch-embedding": ("row beyond table",),
    "torch-multihead": ("attention on padding",),
    "transformers-token-classification": ("tag on special",),
    "transformers-tokenizer": ("special predicted",),
    "transformers-encoder-decoder": ("start twice",),
    "sklearn-pitfalls": ("scaled apart", "fitted on eval"),
}
"""Ids of sources, and the kinds that each of them is about."""


def cited(kind: RelationKind) -> tuple[str, ...]:
    return tuple(source for source, kinds in BY_SOURCE.items() if kind in kinds)

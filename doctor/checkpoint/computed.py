"""Tensors that a program computes anew, and that not every file keeps."""

from __future__ import annotations

from collections.abc import Iterable

ENDS = (
    *("inv_freq", "position_ids", "rope_freqs.weight", "cos_cached", "sin_cached"),
    *(".attn.bias", ".attn.masked_bias", ".attention.bias", ".attention.masked_bias"),
)
"""Of their names."""


def is_computed(name: str) -> bool:
    return name.endswith(ENDS)


def not_computed(names: Iterable[str]) -> list[str]:
    return [name for name in names if not is_computed(name)]

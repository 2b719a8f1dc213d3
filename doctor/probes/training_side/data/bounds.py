"""Numbers that a table or an output lacks, counted over the calls of some steps."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional

import torch


class Beyond(NamedTuple):
    """Numbers that a table or an output lacks."""

    wrong: int
    whole: int
    low: float
    high: float
    bound: int


def indices(kind: str, table: str, each: Beyond) -> Dict[str, Any]:
    """The record Indices."""
    return {
        "type": "Indices", "kind": kind, "entries": each.bound, "table": table,
        "highest": int(each.high), "lowest": int(each.low), "beyond": each.wrong,
    }  # fmt: skip


def beyond(values: torch.Tensor, wrong: torch.Tensor, bound: int) -> Beyond:
    if not values.numel():
        return Beyond(0, 0, 0.0, 0.0, bound)
    low, high = float(values.min()), float(values.max())
    return Beyond(int(wrong.sum()), values.numel(), low, high, bound)


def merged(one: Optional[Beyond], other: Beyond) -> Beyond:
    """Of two calls; of two bounds, as of two outputs, those of the worse one."""
    if one is None or (one.bound != other.bound and other.wrong):
        return other
    if one.bound != other.bound:
        return one
    low, high = min(one.low, other.low), max(one.high, other.high)
    return Beyond(one.wrong + other.wrong, one.whole + other.whole, low, high, one.bound)

"""More layers of a model directory, while fewer of them may be why its training fails."""

from __future__ import annotations

import os
from collections.abc import Sequence

from doctor.facts.cut_depth import may_be_the_cut
from doctor.facts.own_model import OwnModel

FREE_SHARE = 0.25
"""Of the free memory that a deeper model may take."""
BYTES_PER_PARAMETER = 16
"""In fp32: the weight, its gradient and two moments of AdamW."""


def next_depth(own: OwnModel, expect_no_grad: Sequence[str] = ()) -> int | None:
    """The number of layers to try next; None if the result stands, or more do not fit."""
    if not own.layers or not own.all_layers or not may_be_the_cut(own, expect_no_grad):
        return None
    layers = min(2 * own.layers, own.all_layers)
    return layers if layers > own.layers and _fits(own, layers / own.all_layers) else None


def _fits(own: OwnModel, share: float) -> bool:
    """Whether that share of the whole model takes a small part of the free memory."""
    if not own.all_parameters:
        return False
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return False
    return own.all_parameters * share * BYTES_PER_PARAMETER <= FREE_SHARE * free

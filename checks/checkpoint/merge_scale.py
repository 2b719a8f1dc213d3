"""Why a merge has another scale than its adapter's configuration says."""

from __future__ import annotations

import math
from collections.abc import Iterator

from doctor.checkpoint.records import AdapterUse, Merge

CLOSE = 0.04
"""Relative distance within which a scale is that of a known mistake. Our own number."""


def scale_reason(merge: Merge, scale: float) -> str:
    """The mistake that gives this multiple of the right update, "" for none that is known."""
    for value, reason in _candidates(merge.adapters):
        if value and abs(scale / value - 1) <= CLOSE:
            return reason
    return ""


def _candidates(adapters: tuple[AdapterUse, ...]) -> Iterator[tuple[float, str]]:
    first = adapters[0] if adapters else None
    if first is not None and first.weight not in (0.0, 1.0):
        yield 1 / first.weight, f"merged without the weight {first.weight:g}"
        yield first.weight, f"the weight {first.weight:g} was applied twice"
    yield 2.0, "merged twice, or with twice the scale"
    yield 3.0, "merged three times, or with three times the scale"
    yield -1.0, "subtracted, as unmerging does"
    if first is None or not first.rank:
        return
    rank = float(first.rank)
    if first.alpha:
        yield rank / first.alpha, "the product was not scaled by lora_alpha / r"
        yield first.alpha / rank, "scaled by lora_alpha / r twice"
    yield rank, "scaled by lora_alpha, not divided by r"
    yield math.sqrt(rank), "scaled by lora_alpha / sqrt(r), as rsLoRA, not by lora_alpha / r"
    yield 1 / math.sqrt(rank), "scaled by lora_alpha / r, not by lora_alpha / sqrt(r) of rsLoRA"
    yield 0.5, "merged with half of the scale"


FIXES = {
    "its product, transposed": "Transpose the product of every weight that is stored as Conv1D "
    "keeps it (fan_in_fan_out), square ones, too",
    "its product without": "Normalize base + product, and multiply its rows by "
    "lora_magnitude_vector",
    "its product in a part": "Gather the adapter and the base from all ranks before merging",
    "the product of": "Give each module its own product: compare the names, and the numbers of the "
    "layers",
}


def mistake_fix(instead: str) -> str:
    """The remedy for what was added in place of an update."""
    hint = next(fix for start, fix in FIXES.items() if instead.startswith(start))
    return f"{hint}. Or merge again from the base with peft's merge_and_unload()."

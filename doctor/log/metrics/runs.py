"""Where a further run begins in one log: its values are no part of the curves before it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

SCRATCH = re.compile(
    r"\b(?:starting|training|start|train|begin\w{0,4}) (?:\w{1,12} ){0,2}from scratch\b|"
    r"\bno (?:\w{1,12} ){0,2}checkpoints? (?:\w{1,12} )?found\b|"
    r"\bno (?:\w{1,12} ){0,2}(?:checkpoint|ckpt)s? (?:found )?(?:in|at|under) [^\n]{1,200}?"
    r"\b(?:start|begin|train)\w{0,4} (?:\w{1,12} ){0,3}(?:step|epoch|iteration) 0\b"
)
HEAD = re.compile(r"\*{3,} ?running training ?\*{3,}")
RESUMED = re.compile(
    r"\b(?:resuming|resumed|restoring|restored|continuing|continued) [^\n]{0,80}"
    r"(?:checkpoint|ckpt|step|epoch|iter)"
)
FOLD = re.compile(r"\bfold(?: no\.?)?[ _:#=-]{0,3}(\d{1,2})\b")
"""Part of a cross-validation, each with a training of its own."""
NEAR = 25
"""Rows around the head of a training in which it says that it goes on from a checkpoint. Our own
number."""
CUES = ("running training", "from scratch", "checkpoint found", "checkpoints found",
        "step 0", "epoch 0", "iteration 0", "fold")  # fmt: skip


def runs_of(
    rows: Sequence[tuple[int, str]], begun: Sequence[int] = ()
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Lines that begin a training with new weights, and those of them that say that no checkpoint
    was there; rows have their numbers. The count of epochs is `begun` anew at lines."""
    lowered = [(number, row[:1000].lower()) for number, row in rows]
    resumed = [number for number, row in lowered if RESUMED.search(row)]
    scratch = [number for number, row in lowered if SCRATCH.search(row)]
    heads = [
        number
        for number in (*begun, *(number for number, row in lowered if HEAD.search(row)))
        if not any(abs(number - other) <= NEAR for other in resumed)
    ]
    folds = [(number, found[1]) for number, row in lowered if (found := FOLD.search(row))]
    others = [number for (_, one), (number, other) in pairwise(folds) if one != other]
    return tuple(sorted({*heads, *scratch, *others})), tuple(scratch)

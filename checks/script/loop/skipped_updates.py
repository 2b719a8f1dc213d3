"""Batches that a loop leaves out between unscale_() and update() of a GradScaler."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import amp
from doctor.checks.script.reading import within
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training

SKIPS = re.compile(r"norm|finite|isnan|isinf|loss", re.IGNORECASE)
ENDS = re.compile(r"Error$|Exception$|exit$|new_scaler|GradScaler")


def update_skipped(
    reading: Training, scope: int, scaler: str, updates: list[int]
) -> Iterator[Match]:
    """A batch whose norm is too large is left between unscale_() and update()."""
    for number, call in reading.numbered(amp.on_scaler(reading, scope, scaler, "unscale_")):
        later = [reading.calls[n] for n in updates if n > number]
        if not call.loops or not later or any(within(call.arms, u.arms) for u in later):
            continue
        for branch, arm in later[0].arms if len(later) == 1 else ():
            test = reading.test_of(branch)
            left = (branch, 1 - arm)
            bad = test is not None and (branch, arm) not in call.arms and SKIPS.search(test.text)
            ends = any(left in b.arms for b in reading.script.bare if b.name == "break") or any(
                left in c.arms and ENDS.search(c.method) for c in reading.calls
            ) or any(left in arms for _, arms in reading.function(scope).exits)  # fmt: skip
            if bad and test is not None and not ends:
                message = f"`{test.text}` leaves out {scaler}.update(): the next unscale_() raises"
                fix = f"Call {scaler}.update() where a batch is skipped, too."
                yield Match(call.span, message, fix=fix)
                break

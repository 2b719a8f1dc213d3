"""An early stop that ends the epoch alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.naming import is_loader
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training

PATIENCE = re.compile(r"patience|early_?stopp|should_stop", re.IGNORECASE)


def stops_inner_loop(reading: Training) -> Iterator[Match]:
    """if wait >= patience: break, in the loop over the batches of an epoch."""
    for each in reading.script.bare:
        if each.name != "break" or len(each.loops) < 2 or not each.arms:
            continue
        test = reading.test_of(each.arms[-1][0])
        inner, outer = reading.loops[each.loops[-1]], reading.loops[each.loops[-2]]
        batches = inner.iterable is not None and any(
            is_loader(name) or _is_made(reading, name, each.scope)
            for name in inner.iterable.all_names
        )
        epochs = outer.kind == "for" and "epoch" in outer.target
        if test is None or not PATIENCE.search(test.text) or not batches or not epochs:
            continue
        around = [
            b for b in reading.script.bare if b.name == "break" and b.loops == each.loops[:-1]
        ]
        flagged = any(a.arms == each.arms for a in reading.assignments)
        leaves = any(c.method in ("exit", "_exit") and c.arms == each.arms for c in reading.calls)
        if not around and not flagged and not leaves:
            message = "break ends this epoch alone: the next one goes on"
            yield Match(each.span, message, "warn", fix="Set a flag and break the outer loop, too.")


def _is_made(reading: Training, name: str, scope: int) -> bool:
    made = reading.calls_of([a.value for a in reading.assigned_to(name, scope)])
    return bool(made) and all(call.method == "DataLoader" for call in made)

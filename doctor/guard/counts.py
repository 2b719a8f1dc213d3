"""What was observed in a process so far, and which process of the job it is."""

from __future__ import annotations

import os
import time
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .watch import Watch

NAMED = 4
"""Optimizers that are named."""


def counts(watch: Watch) -> dict[str, object]:
    """The fields of `doctor.facts.guard.GuardCounts`."""
    watches, steady = watch.watches.values(), watch.steady
    tracked = [each for w in watches for each in w.parameters.tracked]
    zeros = [each for each in tracked if each.start == "zeros"]
    vectors = [each for each in tracked if each.vector]
    return {
        "steps": watch.steps,
        "backwards": steady.backwards,
        "losses": steady.losses_read,
        "bad_losses": steady.bad_losses,
        "norms": watch.norms,
        "rates": watch.rates_read,
        "looks": watch.looks,
        "effective": max((w.effective for w in watches), default=0),
        "skipped": watch.skipped,
        "scaled": watch.scaling.active,
        "tracked": len(tracked),
        "gradients": sum(each.gradient for each in tracked),
        "moved": sum(each.moved for each in tracked),
        "ones": sum(each.start == "ones" for each in tracked),
        "zeros": len(zeros),
        "zeros_moved": sum(each.moved for each in zeros),
        "vectors": len(vectors),
        "vectors_moved": sum(each.moved for each in vectors),
        "half": sum(each.half for each in tracked),
        "unread": steady.unread,
        "unread_from": steady.unread_from,
        "read_every": steady.most_every,
        "step_seconds": steady.step_seconds,
        "dropped": watch.values.dropped,
        "optimizers": [w.name for w in watches][:NAMED],
        "seconds": time.monotonic() - watch.began,
    }


def rank_and_world(torch: ModuleType) -> tuple[int, int]:
    """Rank and world size, from torch.distributed or the launcher's variables."""
    distributed = getattr(torch, "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    try:
        return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    except ValueError:
        return 0, 1

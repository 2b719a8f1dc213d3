"""What was observed in a process so far, and which process of the job it is."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Iterable

from .readings import Readings

if TYPE_CHECKING:
    from .optimizer_watch import OptimizerWatch

NAMED = 4
"""Optimizers that are named."""


@dataclass
class Tally:
    """Steps of all optimizers; of them, those with a norm, a learning rate, and skipped ones.

    `looks` counts comparisons of parameters, `clips` clippings until they were judged, `states`
    state dicts that were saved or loaded, `fetched` batches, `graphs` those of known losses,
    `evaluations` those whose modules were looked at, `schedules` those of learning rates. `began`
    is in monotonic seconds.
    """

    steps: int = 0
    norms: int = 0
    rates: int = 0
    skipped: int = 0
    looks: int = 0
    clips: int = 0
    states: int = 0
    fetched: int = 0
    graphs: int = 0
    evaluations: int = 0
    schedules: int = 0
    began: float = field(default_factory=time.monotonic)


def counts(
    tally: Tally,
    readings: Readings[OptimizerWatch],
    optimizers: Iterable[OptimizerWatch],
) -> dict[str, object]:
    """The fields of `doctor.facts.guard.GuardCounts`."""
    watches, steady = list(optimizers), readings.steady
    tracked = [each for w in watches for each in w.parameters.tracked]
    zeros = [each for each in tracked if each.start == "zeros"]
    vectors = [each for each in tracked if each.vector]
    counted = asdict(tally)
    began = counted.pop("began")
    return {
        **counted,
        "backwards": steady.backwards,
        "losses": steady.losses_read,
        "bad_losses": steady.bad_losses,
        "effective": max((w.effective for w in watches), default=0),
        "scaled": steady.scaled,
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
        "dropped": readings.values.dropped,
        "optimizers": [w.name for w in watches][:NAMED],
        "seconds": time.monotonic() - began,
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

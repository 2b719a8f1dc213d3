"""What the ranks of one run have in common: weights that must be equal, batches that must not."""

from __future__ import annotations

from collections.abc import Sequence

from doctor.collect.rehearsal.records import Observed, Snapshot
from doctor.facts.rehearsal import Agreement

NAMED = 3
START = 0


def compare(processes: Sequence[Observed]) -> Agreement:
    """The weights of all ranks after the same steps, and their first batches."""
    taken = [_by_step(each) for each in processes]
    common = sorted(set.intersection(*map(set, taken))) if taken else []
    differ_from: int | None = None
    names: list[str] = []
    for step in common:
        names = _different([snapshots[step] for snapshots in taken])
        if names:
            differ_from = step
            break
    batches = [batch for each in processes if (batch := each.batch())]
    return Agreement(
        ranks=len(processes),
        replicated=any(each.replicated for shots in taken for each in shots.values()),
        steps=tuple(common),
        differ_from=differ_from,
        names=tuple(name[:300] for name in names[:NAMED]),
        count=len(names),
        batches=len(batches),
        distinct=len({repr(batch) for batch in batches}),
    )


def _by_step(observed: Observed) -> dict[int, Snapshot]:
    """Its snapshots by the steps before them."""
    return {each.s: each for each in observed.snapshots if each.when in ("start", "late", "step")}


def _different(snapshots: Sequence[Snapshot]) -> list[str]:
    """Weights that not all ranks have alike."""
    first, *others = snapshots
    return [
        name
        for name, tensor in first.weights.items()
        if any(other.weights.get(name, tensor) != tensor for other in others)
    ]

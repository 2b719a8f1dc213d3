"""What the ranks of one run have in common: weights that must be equal, batches that must not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from doctor.collect.rehearsal.observation import Observed
from doctor.collect.rehearsal.records import (
    Epoch,
    Gradients,
    Joined,
    Loader,
    Snapshot,
    Taken,
    Tensor,
)
from doctor.facts.rehearsal import Agreement

NAMED = 3
PART = 3
"""Where a tensor's record says which part of the weight this is."""


def compare(processes: Sequence[Observed], *, cut: bool) -> Agreement:
    """The weights of all ranks after the same steps, their first batches and their epochs.

    `cut`: the run was killed at its deadline.
    """
    taken = [_by_step(each) for each in processes]
    common = sorted(set.intersection(*map(set, taken))) if taken else []
    differ_from: int | None = None
    names: list[str] = []
    then: list[Snapshot] = []
    for step in common:
        then = [snapshots[step] for snapshots in taken]
        names = _different(then)
        if names:
            differ_from = step
            break
    batches = [batch for each in processes if (batch := each.batch())]
    loaders = [each.of(Loader)[0].batches for each in processes if each.of(Loader)]
    told = [count for count in loaders if count is not None]
    ends = [len(each.of(Epoch)) for each in processes]
    shots = [each for by_step in taken for each in by_step.values()]
    parted, whole = _counts([snapshots[common[0]] for snapshots in taken]) if common else (0, 0)
    rates_step, rates = _rates(processes, differ_from)
    return Agreement(
        ranks=len(processes),
        replicated=any(each.replicated for each in shots),
        data_parallel=any(each.data_parallel for each in shots),
        steps=tuple(common),
        differ_from=differ_from,
        names=tuple(name[:300] for name in names[:NAMED]),
        count=len(names),
        unwrapped=bool(names) and all({*names} <= {*each.unwrapped} for each in then),
        averaged=len(_averaged(processes, names)),
        unaveraged=len(_unaveraged(processes, names)),
        exchanged=len(_averaged(processes, list(shots[0].weights))) if shots else 0,
        rates_step=rates_step,
        rates=rates,
        lacking=_lacking(processes),
        parted=parted,
        whole=whole,
        batches=len(batches),
        distinct=len({repr(batch) for batch in batches}),
        sampled=bool(processes) and all(map(_sampled, processes)),
        epoch=tuple(told) if len(told) == len(processes) else (),
        orders=_orders(processes),
        repeated=min(map(_repeated, processes), default=0),
        joined=any(each.of(Joined) for each in processes),
        went_on=bool(processes) and all(map(_went_on, processes)),
        uneven_end=cut and len(set(ends)) > 1,
    )


def _lacking(processes: Sequence[Observed]) -> tuple[str, ...]:
    """Weights that have no gradient at the first step of a rank."""
    names = [name[:300] for each in processes for g in each.of(Gradients) for name in g.lacking]
    return tuple(dict.fromkeys(names))[:NAMED]


def _sampled(observed: Observed) -> bool:
    """Whether its first loader shuffles by a DistributedSampler."""
    return any(each.shuffles == "DistributedSampler" for each in observed.of(Loader)[:1])


def _orders(processes: Sequence[Observed]) -> tuple[str, ...]:
    """What the DistributedSampler of each rank shuffles by, where they differ."""
    found = tuple(each.of(Loader)[0].by for each in processes if _sampled(each))
    known = len(found) == len(processes) and all(found)
    return found if known and len(set(found)) > 1 else ()


def _repeated(observed: Observed) -> int:
    """Samples at the start of its second epoch that are those of the first in the same order, where
    a DistributedSampler shuffles; 0 for another order, and for none that is known."""
    ends = observed.of(Epoch)
    if not ends or not _sampled(observed):
        return 0
    taken: list[Taken] = observed.of(Taken)
    first = [sample for each in taken if each.s <= ends[0].s for sample in each.samples]
    later = [sample for each in taken if each.s > ends[0].s for sample in each.samples]
    compared = min(len(first), len(later))
    return compared if first[:compared] == later[:compared] else 0


def _went_on(observed: Observed) -> bool:
    """Whether it took further steps after an epoch."""
    epochs = observed.of(Epoch)
    return bool(epochs) and observed.rank().steps > epochs[0].s


def _by_step(observed: Observed) -> dict[int, Snapshot]:
    """Its snapshots by the steps before them."""
    return {each.s: each for each in observed.snapshots if each.when in ("start", "late", "step")}


def _held(name: str, snapshots: Sequence[Snapshot]) -> dict[str, list[Tensor]]:
    """A weight on the ranks that have it, by the part of it that they hold."""
    parts: dict[str, list[Tensor]] = defaultdict(list)
    for number, snapshot in enumerate(snapshots):
        if tensor := snapshot.weights.get(name):
            part = str(tensor[PART]) if len(tensor) > PART else ""
            parts[f"rank {number}" if part == "not known" else part].append(tensor)
    return parts


def _different(snapshots: Sequence[Snapshot]) -> list[str]:
    """Weights that not all ranks with the same part have alike."""
    return [
        name
        for name in snapshots[0].weights
        if any(other != held[0] for held in _held(name, snapshots).values() for other in held[1:])
    ]


def _averaged(processes: Sequence[Observed], names: Sequence[str]) -> list[str]:
    """Of these weights, those whose gradients are the same on all ranks, and not zero."""
    first, *others = _gradients(processes) or [{}]
    return [
        name
        for name in names
        if name in first and first[name][2] and all(o.get(name) == first[name] for o in others)
    ]


def _unaveraged(processes: Sequence[Observed], names: Sequence[str]) -> list[str]:
    """Of these weights, those that all ranks have a gradient of, and not the same."""
    first, *others = _gradients(processes) or [{}]
    return [
        name
        for name in names
        if name in first and all(name in o for o in others)
        and any(o[name] != first[name] for o in others)
    ]  # fmt: skip


def _gradients(processes: Sequence[Observed]) -> list[dict[str, Tensor]]:
    """Those of the first step of each rank; [] where one recorded none."""
    found = [each.of(Gradients)[0].tensors for each in processes if each.of(Gradients)]
    return found if len(found) == len(processes) else []


def _rates(processes: Sequence[Observed], last: int | None) -> tuple[int, tuple[float, ...]]:
    """The first step until `last` at which the learning rates of the ranks differ, and these."""
    of_ranks = [{step.s: step.rates[0] for step in e.steps if step.rates} for e in processes]
    for step in range(1, (last or 0) + 1):
        rates = tuple(rates[step] for rates in of_ranks if step in rates)
        if len(rates) == len(processes) and len(set(rates)) > 1:
            return step, rates
    return 0, ()


def _counts(snapshots: Sequence[Snapshot]) -> tuple[int, int]:
    """Weights in parts, and weights of which several ranks hold the same part."""
    found = [_held(name, snapshots) for name in snapshots[0].weights]
    whole = sum(any(len(held) > 1 for held in parts.values()) for parts in found)
    return sum(len(parts) > 1 for parts in found), whole

"""The state at the start of the continued run, compared with what was there at the save."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from doctor.collect.rehearsal.differences import apart, differences, frozen, other_names
from doctor.collect.rehearsal.observation import Observed
from doctor.collect.rehearsal.records import (
    Exchanged,
    Group,
    Load,
    OptimizerState,
    Paused,
    Snapshot,
    Tensor,
    Unprepared,
)
from doctor.facts.rehearsal_resume import Lost, Resumed
from doctor.facts.rehearsal_runs import RehearsedRank

PREFIXES = ("_orig_mod.", "module.", "model.", "_fsdp_wrapped_module.")


def compare(
    first: Sequence[Observed],
    stopped: Sequence[Observed],
    continued: Sequence[Observed],
    *,
    looked: bool,
    request: str,
    opened: str,
) -> Resumed | None:
    """None where no rank has both states. `first` is the uninterrupted run."""
    starts = {each.process.rank: _start(each) for each in continued}
    fresh = {each.process.rank: _start(each) for each in first}
    saved_by = {each.process.rank: _saves(each) for each in stopped}
    results = []
    for each in stopped:
        rank = each.process.rank
        now = starts.get(rank)
        saves = saved_by[rank] or (_shared(saved_by.get(0, [])) if now else [])
        saves = saves or _at_the_saves_of(saved_by.get(0, []), stopped[0], each)
        if now is not None and saves:
            results.append((rank, _nearest(saves, now), saves[-1], fresh.get(rank), now))
    if not results:
        return None
    lost: list[Lost] = []
    taken = [load for each in continued for load in each.loads()]
    loads = [load for load in taken if load.missed or load.extra]
    pretrained = [_described(load) for each in first for load in each.loads()]
    later = [name for each in stopped for paused in each.of(Paused) for name in paused.frozen]
    for rank, saved, _, begun, now in results:
        found = differences(_with_shared(saved, results[0][1], now), now, begun, rank)
        renamed = other_names(saved, now, rank) if loads else []
        if renamed:  # the optimizer's groups have the new names, too
            found = [each for each in found if each.kind != "group"]
        lost += found + renamed + frozen(saved, now, begun, later, rank)
    rank, saved, newest, begun, now = results[0]
    from_start = (
        begun is not None
        and _same(begun.weights, now.weights)
        and not _same(saved.weights, now.weights)
        and not any(optimizer.state for optimizer in now.optimizers.values())
    )
    if saved.background and not from_start and not _same(saved.weights, now.weights):
        return None  # the copy that was written is not known
    total = max((each.rank().steps for each in first if each.rank().ended), default=0)
    ends_well = bool(first) and all(e.rank().ended and not e.rank().error for e in first)
    rates = None if from_start else rates_apart(first, continued, saved)
    worst = max(loads, key=lambda load: load.missed + load.extra, default=None)
    exchanged = saved.exchanged and any(e.s == saved.s for o in stopped for e in o.of(Exchanged))
    if exchanged and not _same(apart(saved.weights)[0], apart(now.weights)[0]):
        # Schedule-free: computed anew, and a setting says which of both is in the model.
        lost = [each for each in lost if each.kind not in ("weights", "option")]
        exchanged = False
    return Resumed(
        saved_step=saved.s,
        exchanged=exchanged,
        unprepared=any(each.of(Unprepared) for each in continued),
        pending=saved.pending,
        stateful=sum(len(each.state) for each in saved.optimizers.values()),
        newest_step=newest.s,
        from_start=from_start,
        looked=looked,
        request=request,
        opened=opened,
        steps=max((each.rank().steps for each in continued), default=0),
        expected_steps=total - saved.s if ends_well and total else None,
        compared=len(saved.weights) + len(saved.buffers),
        same_batches=_same_batches(first, continued),
        lost=(*_first_ranks(lost), *([rates] if rates else [])),
        missed_keys=tuple(worst.missing) if worst else (),
        extra_keys=tuple(worst.unexpected) if worst else (),
        narrow=next((e.narrow for e in taken if e.narrow and _described(e) not in pretrained), ""),
        prefix=_prefix(worst.missing, worst.unexpected) if worst else "",
    )


def _described(load: Load) -> tuple[str, int, str]:
    """What the uninterrupted run loads, too, is none of what was saved."""
    return load.module, load.given, load.narrow


def _same_batches(first: Sequence[Observed], continued: Sequence[Observed]) -> int:
    """Ranks whose first batches differ in the first run, and not all in the continued one."""
    before, after = (
        [repr(batch) for each in ranks if (batch := each.batch())] for ranks in (first, continued)
    )
    differed = len(before) == len(set(before)) == len(after) > 1
    return len(after) if differed and len(set(after)) < len(after) else 0


def _saves(observed: Observed) -> list[Snapshot]:
    return [snapshot for snapshot in observed.snapshots if snapshot.when == "save"]


def _shared(saves: list[Snapshot]) -> list[Snapshot]:
    """Those of rank 0 that also are the state of the ranks that save nothing."""
    return [each for each in saves if each.replicated]


def _at_the_saves_of(saves: list[Snapshot], saver: Observed, observed: Observed) -> list[Snapshot]:
    """Of a rank that saves nothing and holds parts of its own: its weights and optimizers after
    the steps of rank 0's saves, if rank 0 saved the weights that it had after the step."""
    of_saver = {each.s: each for each in saver.snapshots if each.when == "step"}
    own = {each.s: each for each in observed.snapshots if each.when == "step"}
    found = []
    for save in saves:
        after = of_saver.get(save.s)
        if after is None or save.s not in own or apart(after.weights) != apart(save.weights):
            continue
        held = own[save.s]
        states = {name: OptimizerState(_bare(o.groups), o.state) for name, o in
                  held.optimizers.items()}  # fmt: skip
        weights = apart(held.weights)[0]
        found.append(Snapshot("save", save.s, 0.0, weights, {}, states, schedules={}, scalers={}))
    return found


def _bare(groups: Sequence[Group]) -> list[Group]:
    """Without their settings, which a schedule changes after the step."""
    return [Group(group.parameters, {}) for group in groups]


def _start(observed: Observed) -> Snapshot | None:
    """Before its first step; "late" is after the forward pass, which changes buffers."""
    return next((each for each in observed.snapshots if each.when in ("start", "late")), None)


def _nearest(saves: Sequence[Snapshot], now: Snapshot) -> Snapshot:
    """The newest save with these weights; without one, that with most of them, the newest first."""

    def equal(saved: Snapshot) -> int:
        return sum(saved.weights.get(name) == tensor for name, tensor in now.weights.items())

    return max(reversed(saves), key=equal)


def _same(left: dict[str, Tensor], right: dict[str, Tensor]) -> bool:
    return left == right


def _with_shared(saved: Snapshot, shared: Snapshot, now: Snapshot) -> Snapshot:
    """The save with rank 0's buffers where the rank has taken them over: statistics of BatchNorm
    differ between ranks, and a checkpoint holds one of them."""
    taken = {
        name: tensor
        for name, tensor in shared.buffers.items()
        if name in saved.buffers and now.buffers.get(name) == tensor
    }
    return msgspec.structs.replace(saved, buffers={**saved.buffers, **taken})


def _first_ranks(lost: Sequence[Lost]) -> list[Lost]:
    """Each kind once, of the first rank that has it."""

    unique: dict[tuple[str, tuple[str, ...]], Lost] = {}
    for each in lost:
        unique.setdefault((each.kind, each.names), each)
    return list(unique.values())


def _prefix(missing: Sequence[str], unexpected: Sequence[str]) -> str:
    """The prefix by which the keys of the file and those of the model differ."""
    for prefix in PREFIXES:
        for name in missing:
            if prefix + name in unexpected or (
                name.startswith(prefix) and name.removeprefix(prefix) in unexpected
            ):
                return prefix
    return ""


def rates_apart(
    first: Sequence[Observed], continued: Sequence[Observed], saved: Snapshot
) -> Lost | None:
    """The learning rates after the save, in both runs, at the step where they differ most.

    One that may follow the data (ReduceLROnPlateau, or no schedule of torch: by tokens seen, say)
    is compared at the first step alone: the order of the data may be another one.
    """
    whole = _of_rank_0(first)
    after = _of_rank_0(continued)
    if whole is None or after is None:
        return None
    follows = not saved.schedules or any("Plateau" in name for name in saved.schedules)
    end = saved.s + 1 if follows else None
    pairs = list(zip(whole.rates[saved.s : end], after.rates, strict=False))
    apart = [number for number, pair in enumerate(pairs) if not _close(*pair)]
    if not apart:
        return None
    most = max(apart, key=lambda number: _distance(*pairs[number]))
    before, now = pairs[most]
    fresh = _close(whole.rates[0], after.rates[0])
    texts = (f"{max(before):g}", f"{max(now):g}")
    return Lost(
        kind="rate", count=0, of=len(before), fresh=fresh, before=texts[0], after=texts[1],
        step=saved.s + most + 1,
    )  # fmt: skip


def _distance(left: Sequence[float], right: Sequence[float]) -> float:
    """The largest relative difference of two learning rates of a group."""
    pairs = zip(left, right, strict=False)
    return max((abs(a - b) / max(abs(a), abs(b), 1e-30) for a, b in pairs), default=0.0)


def _close(left: Sequence[float], right: Sequence[float]) -> bool:
    """Equal but for the last digits: schedules are computed in another order."""
    return len(left) == len(right) and all(
        abs(a - b) <= 1e-6 * max(abs(a), abs(b)) for a, b in zip(left, right, strict=True)
    )


def _of_rank_0(processes: Sequence[Observed]) -> RehearsedRank | None:
    return processes[0].rank() if processes else None

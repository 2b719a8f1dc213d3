"""The state at the start of the continued run, compared with what was there at the save."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from doctor.collect.rehearsal.begun_anew import best_begun_anew, counts_anew
from doctor.collect.rehearsal.differences import (
    apart,
    differences,
    frozen,
    other_names,
    replaced,
    untied,
)
from doctor.collect.rehearsal.numbers import numbers_anew
from doctor.collect.rehearsal.observation import Observed
from doctor.collect.rehearsal.rates import rates_apart
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
from doctor.collect.rehearsal.resumed_data import (
    epoch_steps,
    first_batch_again,
    position,
    same_batches,
)
from doctor.facts.rehearsal_resume import Lost, Resumed

PREFIXES = ("_orig_mod.", "module.", "model.", "_fsdp_wrapped_module.")


@dataclass(frozen=True)
class _Pair:
    """The states of one rank at a save and at the resume."""

    rank: int
    saved: Snapshot
    """That from which the resume goes on."""
    newest: Snapshot
    begun: Snapshot | None
    """The start of the uninterrupted run."""
    now: Snapshot


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
    pairs = _pairs(first, stopped, continued)
    if not pairs:
        return None
    saved = pairs[0].saved
    from_start = _from_start(pairs[0])
    if saved.background and not from_start and not _same(saved.weights, pairs[0].now.weights):
        return None  # the copy that was written is not known
    loads = _Loads(first, continued)
    lost = _lost(pairs, stopped, renames=loads.worst is not None)
    exchanged, lost = _exchanged(pairs[0], stopped, lost)
    rates = None if from_start else rates_apart(first, continued, saved)
    numbers = None if from_start else _numbers_anew(pairs[0], first, stopped, continued)
    return Resumed(
        saved_step=saved.s,
        exchanged=exchanged,
        unprepared=any(each.of(Unprepared) for each in continued),
        pending=saved.pending,
        stateful=sum(len(each.state) for each in saved.optimizers.values()),
        newest_step=pairs[0].newest.s,
        from_start=from_start,
        looked=looked,
        request=request,
        opened=opened,
        steps=max(map(_steps_of_one, continued), default=0),
        expected_steps=None if saved.background else _steps_left(first, saved),
        epoch_steps=epoch_steps(stopped, saved.s),
        compared=len(saved.weights) + len(saved.buffers),
        same_batches=same_batches(first, continued),
        best_anew=best_begun_anew(saved, pairs[0].now, pairs[0].begun)[:300],
        first_batch=first_batch_again(first, continued, saved),
        position=position(first),
        lost=(*_first_ranks(lost), *([rates] if rates else []), *([numbers] if numbers else [])),
        missed_keys=tuple(loads.missing),
        extra_keys=tuple(loads.unexpected),
        narrow=loads.narrow,
        prefix=_prefix(loads.missing, loads.unexpected),
    )


def _pairs(
    first: Sequence[Observed], stopped: Sequence[Observed], continued: Sequence[Observed]
) -> list[_Pair]:
    """Of each rank that has both states."""
    starts = {each.process.rank: _starts(each) for each in continued}
    fresh = {each.process.rank: _start(each) for each in first}
    saved_by = {each.process.rank: _saves(each) for each in stopped}
    found = []
    for each in stopped:
        rank = each.process.rank
        begins = starts.get(rank, [])
        now = begins[-1] if begins else None
        saves = saved_by[rank] or (_shared(saved_by.get(0, [])) if now else [])
        saves = saves or _at_the_saves_of(saved_by.get(0, []), stopped[0], each)
        if now is not None and saves:
            now = max(reversed(begins), key=lambda start: _most_equal(saves, start))
            found.append(_Pair(rank, _nearest(saves, now), saves[-1], fresh.get(rank), now))
    return found


def _from_start(pair: _Pair) -> bool:
    """Whether nothing was restored: the weights are those of a fresh start, or, without a seed, no
    tensor is that of the save, and those weights are fresh that begin alike (norms, biases)."""
    begun, now = pair.begun, pair.now
    if begun is None or any(optimizer.state for optimizer in now.optimizers.values()):
        return False
    if _same(begun.weights, now.weights):
        return not _same(pair.saved.weights, now.weights)
    weights = _changed(now.weights, pair.saved.weights, begun.weights)
    buffers = _changed(now.buffers, pair.saved.buffers, begun.buffers)
    restored = any(n == s for n, s, _ in (*weights, *buffers))
    return any(n == b for n, _, b in weights) and not restored  # a counter may begin again


def _changed(*held: dict[str, Tensor]) -> list[tuple[Tensor, ...]]:
    """Each tensor now, at the save and at a fresh start, if the steps had changed it."""
    names = set.intersection(*map(set, held))
    found = [tuple(tensors[name] for tensors in held) for name in names]
    return [each for each in found if each[1] != each[2]]


class _Loads:
    """The states that the modules of the continued run took before its first step."""

    def __init__(self, first: Sequence[Observed], continued: Sequence[Observed]) -> None:
        taken = [load for each in continued for load in each.loads()]
        unfit = [load for load in taken if load.missed or load.extra]
        self.worst = max(unfit, key=lambda load: load.missed + load.extra, default=None)
        self.missing = self.worst.missing if self.worst else []
        self.unexpected = self.worst.unexpected if self.worst else []
        pretrained = [_described(load) for each in first for load in each.loads()]
        narrow = (e.narrow for e in taken if e.narrow and _described(e) not in pretrained)
        self.narrow = next(narrow, "")


def _lost(pairs: Sequence[_Pair], stopped: Sequence[Observed], *, renames: bool) -> list[Lost]:
    """What the ranks lost; `renames`: a state was loaded whose keys did not fit."""
    later = [name for each in stopped for paused in each.of(Paused) for name in paused.frozen]
    lost: list[Lost] = []
    for each in pairs:
        saved = _with_shared(each.saved, pairs[0].saved, each.now)
        found = differences(saved, each.now, each.begun, each.rank)
        renamed = other_names(each.saved, each.now, each.rank) if renames else []
        renamed += replaced(saved, each.now, each.rank) + untied(saved, each.now, each.rank)
        if renamed:  # the optimizer's groups have the new names, too
            found = [other for other in found if other.kind != "group"]
        lost += found + renamed + frozen(each.saved, each.now, each.begun, later, each.rank)
    return lost


def _exchanged(
    pair: _Pair, stopped: Sequence[Observed], lost: list[Lost]
) -> tuple[bool, list[Lost]]:
    """Whether the save holds other weights than the training went on with, and what is lost then.

    A schedule-free optimizer computes them anew, and a setting says which of both is in the model.
    After a save at the end of the run, as on a signal, the saves before it show what would go on.
    """
    saved = pair.saved
    steps = {e.s for o in stopped for e in o.of(Exchanged)}
    last = saved.s >= max((each.rank().steps for each in stopped), default=0)
    exchanged = saved.exchanged and (saved.s in steps or (last and bool(steps)))
    if exchanged and not _same(apart(saved.weights)[0], apart(pair.now.weights)[0]):
        return False, [each for each in lost if each.kind not in ("weights", "option")]
    return exchanged, lost


def _numbers_anew(
    pair: _Pair,
    first: Sequence[Observed],
    stopped: Sequence[Observed],
    continued: Sequence[Observed],
) -> Lost | None:
    """What the loss is computed with, with names of what may hold it."""
    found = numbers_anew(first, stopped, continued, pair.saved.s)
    names = counts_anew(pair.saved, pair.now, pair.begun)
    return msgspec.structs.replace(found, names=tuple(n[:300] for n in names)) if found else None


def _steps_left(first: Sequence[Observed], saved: Snapshot) -> int | None:
    """After the save; None where the uninterrupted run did not end well, or another optimizer
    takes the steps then, as of another phase."""
    if not first or not all(e.rank().ended and not e.rank().error for e in first):
        return None
    total = max(map(_steps_of_one, first))
    phases = total < max(each.rank().steps for each in first)
    return total - saved.s if total and not (phases and total <= saved.s) else None


def _steps_of_one(observed: Observed) -> int:
    """Steps until another optimizer takes them, as of the next fold or phase."""
    return max((each.s for each in observed.steps if each.leader == 1), default=0)


def _described(load: Load) -> tuple[str, int, str]:
    """What the uninterrupted run loads, too, is none of what was saved."""
    return load.module, load.given, load.narrow


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
    """Before its first step; "late" is after the forward pass, which changes buffers, and comes
    last where a state was loaded after the first pass."""
    return starts[-1] if (starts := _starts(observed)) else None


def _starts(observed: Observed) -> list[Snapshot]:
    """Both, where a load came between them: of a checkpoint after the first pass, or of weights
    that the training itself gives to a target or a teacher."""
    return [each for each in observed.snapshots if each.when in ("start", "late")]


def _nearest(saves: Sequence[Snapshot], now: Snapshot) -> Snapshot:
    """The newest save with these weights; without one, that with most of them, the newest first."""

    return max(reversed(saves), key=lambda saved: _equal(saved, now))


def _equal(saved: Snapshot, now: Snapshot) -> int:
    return sum(saved.weights.get(name) == tensor for name, tensor in now.weights.items())


def _most_equal(saves: Sequence[Snapshot], now: Snapshot) -> int:
    return max(_equal(saved, now) for saved in saves)


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

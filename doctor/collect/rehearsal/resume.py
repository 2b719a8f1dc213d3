"""The state at the start of the continued run, compared with what was there at the save."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from doctor.collect.rehearsal.records import (
    Exchanged,
    Observed,
    OptimizerState,
    Snapshot,
    Unprepared,
)
from doctor.collect.rehearsal.resume_rates import rates_apart
from doctor.facts.rehearsal import Lost, Resumed

NAMED = 5
PREFIXES = ("_orig_mod.", "module.", "model.", "_fsdp_wrapped_module.")
VOLATILE = {"lr", "initial_lr"}
"""Settings of a group that have checks of their own."""
LastTensor = list[Any]


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
        if now is not None and saves:
            results.append((rank, _nearest(saves, now), saves[-1], fresh.get(rank), now))
    if not results:
        return None
    lost: list[Lost] = []
    loads = [load for each in continued for load in each.loads() if load.missed or load.extra]
    for rank, saved, _, begun, now in results:
        found = _lost(_with_shared(saved, results[0][1], now), now, begun, rank)
        renamed = _renamed(saved, now, rank) if loads else []
        if renamed:  # the optimizer's groups have the new names, too
            found = [each for each in found if each.kind != "group"]
        lost += found + renamed
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
    if exchanged and not _same(_apart(saved.weights)[0], _apart(now.weights)[0]):
        lost = [each for each in lost if each.kind != "weights"]  # schedule-free: computed anew
        exchanged = False
    return Resumed(
        saved_step=saved.s,
        exchanged=exchanged,
        unprepared=any(each.of(Unprepared) for each in continued),
        stateful=sum(len(each.state) for each in saved.optimizers.values()),
        newest_step=newest.s,
        from_start=from_start,
        looked=looked,
        request=request,
        opened=opened,
        steps=max((each.rank().steps for each in continued), default=0),
        expected_steps=total - saved.s if ends_well and total else None,
        compared=len(saved.weights) + len(saved.buffers),
        lost=(*_first_ranks(lost), *([rates] if rates else [])),
        missed_keys=tuple(worst.missing) if worst else (),
        extra_keys=tuple(worst.unexpected) if worst else (),
        prefix=_prefix(worst.missing, worst.unexpected) if worst else "",
    )


def _saves(observed: Observed) -> list[Snapshot]:
    return [snapshot for snapshot in observed.snapshots if snapshot.when == "save"]


def _shared(saves: list[Snapshot]) -> list[Snapshot]:
    """Those of rank 0 that also are the state of the ranks that save nothing."""
    return [each for each in saves if each.replicated]


def _start(observed: Observed) -> Snapshot | None:
    """Before its first step; "late" is after the forward pass, which changes buffers."""
    return next((each for each in observed.snapshots if each.when in ("start", "late")), None)


def _nearest(saves: Sequence[Snapshot], now: Snapshot) -> Snapshot:
    """The newest save with these weights; without one, that with most of them, the newest first."""

    def equal(saved: Snapshot) -> int:
        return sum(saved.weights.get(name) == tensor for name, tensor in now.weights.items())

    return max(reversed(saves), key=equal)


def _same(left: dict[str, LastTensor], right: dict[str, LastTensor]) -> bool:
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


def _lost(saved: Snapshot, now: Snapshot, begun: Snapshot | None, rank: int) -> list[Lost]:
    """What differs between the save and the start, each kind once."""
    found: list[Lost] = []
    own, copies = _apart(saved.weights)
    fresh = begun.weights if begun else None
    found += _tensors("weights", own, now.weights, fresh, rank)
    found += _tensors("average", copies, now.weights, fresh, rank)
    fresh = begun.buffers if begun else None
    if now.when == "start":
        kept, unsaved = _persistent(saved.buffers)
        found += _tensors("buffers", kept, now.buffers, fresh, rank)
        found += [
            msgspec.structs.replace(each, persistent=False)
            for each in _tensors("buffers", unsaved, now.buffers, fresh, rank)
        ]
    for name, optimizer in saved.optimizers.items():
        after = now.optimizers.get(name)
        if after is not None:
            found += _optimizer(optimizer, after, rank)
    if saved.schedules.keys() == now.schedules.keys():
        found += _numbers("schedule", saved.schedules, now.schedules, rank)
    if saved.scalers.keys() == now.scalers.keys():
        found += _numbers("scaler", saved.scalers, now.scalers, rank)
    return found


def _renamed(saved: Snapshot, now: Snapshot, rank: int) -> list[Lost]:
    """Weights of the save whose names are gone, where the model has others in their place."""
    before, after = _apart(saved.weights)[0], _apart(now.weights)[0]
    gone = [name for name in before if name not in after]
    new = [name for name in after if name not in before]
    if not gone or not new:
        return []
    return [_entry("weights", gone, len(before), rank, texts=(gone[0], new[0]))]


def _apart(
    weights: dict[str, LastTensor],
) -> tuple[dict[str, LastTensor], dict[str, LastTensor]]:
    """The trained model, and copies of other modules: their names begin with a class."""
    copies = {name: tensor for name, tensor in weights.items() if name.startswith("(")}
    return {n: t for n, t in weights.items() if n not in copies}, copies


def _persistent(
    buffers: dict[str, LastTensor],
) -> tuple[dict[str, LastTensor], dict[str, LastTensor]]:
    """The buffers that are in state_dict(), and those with persistent=False."""
    unsaved = {name: tensor for name, tensor in buffers.items() if tensor[3:] == [False]}
    return {n: t for n, t in buffers.items() if n not in unsaved}, unsaved


Kind = Literal["weights", "buffers", "average"]


def _tensors(
    kind: Kind,
    saved: dict[str, LastTensor],
    now: dict[str, LastTensor],
    begun: dict[str, LastTensor] | None,
    rank: int,
) -> list[Lost]:
    both = [name for name in saved if name in now]
    dtypes = [name for name in both if saved[name][0] != now[name][0]]
    shapes = [name for name in both if saved[name][1] != now[name][1] and name not in dtypes]
    values = [
        name
        for name in both
        if saved[name][2] != now[name][2] and name not in dtypes and name not in shapes
    ]
    fresh = begun is not None and all(begun.get(name) == now[name] for name in values)
    found = []
    if values:
        found.append(_entry(kind, values, len(saved), rank, fresh=fresh))
    if dtypes:
        texts = (saved[dtypes[0]][0], now[dtypes[0]][0])
        found.append(_entry("dtype", dtypes, len(saved), rank, texts=texts))
    if shapes and kind != "buffers":  # caches grow with the batches
        texts = (str(saved[shapes[0]][1]), str(now[shapes[0]][1]))
        found.append(_entry("shape", shapes, len(saved), rank, texts=texts))
    return found


def _entry(
    kind: Any,
    names: Sequence[str],
    total: int,
    rank: int,
    *,
    fresh: bool = False,
    texts: tuple[str, str] = ("", ""),
) -> Lost:
    return Lost(
        kind=kind, names=tuple(name[:300] for name in names[:NAMED]), count=len(names), of=total,
        fresh=fresh, rank=rank, before=texts[0][:300], after=texts[1][:300],
    )  # fmt: skip


def _optimizer(saved: OptimizerState, now: OptimizerState, rank: int) -> list[Lost]:
    found = []
    if [g.parameters for g in saved.groups] != [g.parameters for g in now.groups]:
        texts = (_described(saved), _described(now))
        return [_entry("group", [], len(saved.groups), rank, texts=texts)]
    held = {name: state for name, state in saved.state.items() if state}
    different = [name for name, state in held.items() if now.state.get(name, {}) != state]
    if different:
        fresh = not any(now.state.values())
        texts = _first_difference(held[different[0]], now.state.get(different[0], {}))
        found.append(_entry("optimizer", different, len(held), rank, fresh=fresh, texts=texts))
    for number, (before, after) in enumerate(zip(saved.groups, now.groups, strict=True)):
        keys = before.options.keys() & after.options.keys() - VOLATILE
        changed = [key for key in sorted(keys) if before.options[key] != after.options[key]]
        if changed:
            texts = (str(before.options[changed[0]]), str(after.options[changed[0]]))
            names = [f"{key} of group {number}" for key in changed]
            found.append(_entry("option", names, len(keys), rank, texts=texts))
    return found


def _first_difference(before: dict[str, Any], after: dict[str, Any]) -> tuple[str, str]:
    """A number of the state that differs, such as the steps that Adam has counted."""
    if not after:
        return "", "no state"
    for key, value in before.items():
        if after.get(key) != value:
            number = not isinstance(value, list)
            return (
                (f"{key} {value}", f"{key} {after.get(key)}") if number else (key, "other values")
            )
    return "", ""


def _described(optimizer: OptimizerState) -> str:
    sizes = ", ".join(str(len(group.parameters)) for group in optimizer.groups)
    first = next((name for group in optimizer.groups for name in group.parameters), "")
    return f"groups of {sizes} parameters, the first is {first}"


def _numbers(kind: Any, saved: dict[str, Any], now: dict[str, Any], rank: int) -> list[Lost]:
    different = [name for name in saved if saved[name] != now[name]]
    if not different:
        return []
    texts = (str(saved[different[0]]), str(now[different[0]]))
    return [_entry(kind, different, len(saved), rank, texts=texts)]


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

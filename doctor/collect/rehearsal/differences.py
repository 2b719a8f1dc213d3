"""What differs between the state at a save and that at the start of the run that continues."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from doctor.collect.rehearsal.begun_anew import begun_anew
from doctor.collect.rehearsal.records import OptimizerState, Snapshot, Tensor
from doctor.facts.rehearsal_resume import Lost

NAMED = 5
OF_NO_MODULE = re.compile(r"group \d+, \d+")
"""The name of an optimizer's parameter that no module has."""
VOLATILE = {"lr", "initial_lr"}
"""Settings of a group that have checks of their own."""
CYCLED = {"betas", "momentum", "weight_decay"}
"""Settings that schedules change with the steps, as OneCycleLR and CyclicLR do."""
Kind = Literal["weights", "buffers", "average", "reference"]


def differences(saved: Snapshot, now: Snapshot, begun: Snapshot | None, rank: int) -> list[Lost]:
    """What differs between the save and the start, each kind once."""
    found: list[Lost] = []
    own, copies = apart(saved.weights)
    fresh = begun.weights if begun else None
    found += _tensors("weights", own, now.weights, fresh, rank)
    constant, following = _constant(copies, fresh or {})
    found += _tensors("reference", constant, now.weights, fresh, rank)
    found += _tensors("average", following, now.weights, fresh, rank)
    fresh = begun.buffers if begun else None
    if now.when == "start":
        kept, unsaved = _persistent(saved.buffers)
        found += _tensors("buffers", kept, now.buffers, fresh, rank)
        found += [
            msgspec.structs.replace(each, persistent=False)
            for each in _tensors("buffers", unsaved, now.buffers, fresh, rank)
        ]
    for name, optimizer in saved.optimizers.items():
        after = _same_one(name, optimizer, now)
        if after is not None:
            first = _same_one(name, optimizer, begun) if begun else None
            found += _optimizer(optimizer, after, first, rank)
    found += _loose(saved, now, begun, rank)
    if saved.schedules.keys() == now.schedules.keys():
        found += _schedules(saved.schedules, now.schedules, rank)
    if saved.scalers.keys() == now.scalers.keys():
        found += _numbers("scaler", saved.scalers, now.scalers, rank)
    if names := begun_anew(saved, now, begun):
        found.append(_entry("attribute", names, len(names), rank))
    return found


def _loose(saved: Snapshot, now: Snapshot, begun: Snapshot | None, rank: int) -> list[Lost]:
    """Trained tensors of no module that the steps had changed and that were not restored, while
    what their optimizer knows of them was."""
    fresh = begun.loose if begun else {}
    names = []
    for name, entry in saved.loose.items():
        after, first = now.loose.get(name), fresh.get(name)
        if after is None or first is None or entry[:3] in (after[:3], first[:3]):
            continue
        states = [
            snapshot.optimizers[owner].state.get(place)
            for snapshot, (owner, place) in ((saved, entry[3:]), (now, after[3:]))
            if owner in snapshot.optimizers
        ]
        if len(states) == 2 and states[0] and states[0] == states[1]:
            names.append(name)
    if not names:
        return []
    anew = all(fresh[name][:3] == now.loose[name][:3] for name in names)
    return [_entry("loose", names, len(saved.loose), rank, fresh=anew)]


def frozen(
    saved: Snapshot, now: Snapshot, begun: Snapshot | None, later: Sequence[str], rank: int
) -> list[Lost]:
    """Weights that the optimizer had trained, and trains in a fresh start, and that are frozen;
    not those that the steps after the save (`later`) freeze as well."""
    trained = [n for o in saved.optimizers.values() for g in o.groups for n in g.parameters]
    still = {*saved.frozen, *later, *(begun.frozen if begun else ())}
    names = [name for name in now.frozen if name in trained and name not in still]
    return [_entry("frozen", names, len(trained), rank)] if names else []


def replaced(saved: Snapshot, now: Snapshot, rank: int) -> list[Lost]:
    """Weights that an optimizer had trained and that none holds, while one holds parameters of no
    module: the module got new ones after the optimizer was made, or was made anew."""
    held = {n for o in now.optimizers.values() for g in o.groups for n in g.parameters}
    trained = [n for o in saved.optimizers.values() for g in o.groups for n in g.parameters]
    bare = {name.partition(") ")[2] for name in apart(now.weights)[1]} - held
    names = [name for name in trained if name in bare]
    if not names or not any(OF_NO_MODULE.fullmatch(name) for name in held):
        return []
    return [_entry("replaced", names, len(trained), rank)]


def untied(saved: Snapshot, now: Snapshot, rank: int) -> list[Lost]:
    """Weights that the save did not have, with the bits of one that it had: they were one."""
    before, after = apart(saved.weights)[0], apart(now.weights)[0]
    copies = {repr(entry): name for name, entry in after.items() if name in before}
    names = [n for n, entry in after.items() if n not in before and repr(entry) in copies]
    if not names or not before.keys() <= after.keys():
        return []
    one = copies[repr(after[names[0]])]
    return [_entry("untied", names, len(after), rank, texts=(one, names[0]))]


def other_names(saved: Snapshot, now: Snapshot, rank: int) -> list[Lost]:
    """Weights of the save whose names are gone, where the model has others in their place."""
    before, after = apart(saved.weights)[0], apart(now.weights)[0]
    gone = [name for name in before if name not in after]
    new = [name for name in after if name not in before]
    if not gone or not new:
        return []
    return [_entry("weights", gone, len(before), rank, texts=(gone[0], new[0]))]


def apart(weights: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The trained model, and copies of other modules: their names begin with a class."""
    copies = {name: tensor for name, tensor in weights.items() if name.startswith("(")}
    return {n: t for n, t in weights.items() if n not in copies}, copies


def _constant(
    copies: dict[str, Tensor], begun: dict[str, Tensor]
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The copies that no step changed, as of a frozen reference, and those that follow."""
    constant = {name: tensor for name, tensor in copies.items() if begun.get(name) == tensor}
    return constant, {n: t for n, t in copies.items() if n not in constant}


def _persistent(buffers: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The buffers that are in state_dict(), and those with persistent=False."""
    unsaved = {name: tensor for name, tensor in buffers.items() if tensor[3:] == [False]}
    return {n: t for n, t in buffers.items() if n not in unsaved}, unsaved


def _tensors(
    kind: Kind,
    saved: dict[str, Tensor],
    now: dict[str, Tensor],
    begun: dict[str, Tensor] | None,
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


def _same_one(name: str, saved: OptimizerState, now: Snapshot) -> OptimizerState | None:
    """That of the same name, or class and parameters: the first of these, which is a part of the
    name, may be another."""
    if name in now.optimizers:
        return now.optimizers[name]
    kind = name.partition(" of ")[0]
    held = {n for group in saved.groups for n in group.parameters}
    return next(
        (
            each
            for other, each in now.optimizers.items()
            if other.partition(" of ")[0] == kind
            and {n for group in each.groups for n in group.parameters} == held
        ),
        None,
    )


def _optimizer(
    saved: OptimizerState, now: OptimizerState, begun: OptimizerState | None, rank: int
) -> list[Lost]:
    found = []
    held = {name: state for name, state in saved.state.items() if state}
    different = [name for name, state in held.items() if now.state.get(name, {}) != state]
    then, here = ([g.parameters for g in each.groups] for each in (saved, now))
    same_groups = list(map(sorted, then)) == list(map(sorted, here))
    if not same_groups or (then != here and different and any(now.state.values())):
        texts = (_described(saved), _described(now))
        return [_entry("group", [], len(saved.groups), rank, texts=texts)]
    if different:
        fresh = not any(now.state.values())
        texts = _first_difference(held[different[0]], now.state.get(different[0], {}))
        found.append(_entry("optimizer", different, len(held), rank, fresh=fresh, texts=texts))
    return found + _options(saved, now, begun, rank)


def _options(
    saved: OptimizerState, now: OptimizerState, begun: OptimizerState | None, rank: int
) -> list[Lost]:
    """Settings of groups that differ, those apart that the steps until the save had changed."""
    found = []
    fresh = [group.options for group in begun.groups] if begun else []
    for number, (before, after) in enumerate(zip(saved.groups, now.groups, strict=True)):
        keys = before.options.keys() & after.options.keys() - VOLATILE
        changed = [key for key in sorted(keys) if before.options[key] != after.options[key]]
        first = fresh[number] if number < len(fresh) else before.options
        cycled = [k for k in changed if k in CYCLED and first.get(k) != before.options[k]]
        for kind, part in (("cycled", cycled), ("option", [k for k in changed if k not in cycled])):
            if part:
                texts = (str(before.options[part[0]]), str(after.options[part[0]]))
                names = [f"{key} of group {number}" for key in part]
                found.append(_entry(kind, names, len(keys), rank, texts=texts))
    return found


def _first_difference(before: dict[str, object], after: dict[str, object]) -> tuple[str, str]:
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


def _schedules(saved: dict[str, Any], now: dict[str, Any], rank: int) -> list[Lost]:
    """Counted steps; not of one with results of its own that are as they were."""
    kept = [name for name, each in saved.items() if _results(each) and _results(each) == _results(
        now[name])]  # fmt: skip
    then, here = (
        {name: _counted(each) for name, each in held.items() if name not in kept}
        for held in (saved, now)
    )
    return _numbers("schedule", then, here, rank)


def _counted(held: Any) -> Any:
    return held[0] if isinstance(held, list) and held else held


def _results(held: Any) -> Any:
    return held[1:] if isinstance(held, list) else []


def _numbers(
    kind: object, saved: dict[str, object], now: dict[str, object], rank: int
) -> list[Lost]:
    different = [name for name in saved if saved[name] != now[name]]
    if not different:
        return []
    texts = (str(saved[different[0]]), str(now[different[0]]))
    return [_entry(kind, different, len(saved), rank, texts=texts)]

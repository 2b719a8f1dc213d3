"""Which of an optimizer's entries belongs to which weight: by evidence, or not at all."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from doctor._util.units import shown
from doctor.checkpoint.optimizer_slots import FACTORED, SAME_SHAPE
from doctor.checkpoint.tensors import Entry, OptimizerState, Tensor

WRAPPERS = re.compile(
    r"(?:^|(?<=\.))(?:_orig_mod|_fsdp_wrapped_module|_checkpoint_wrapped_module|module)\."
)
"""What torch.compile, FSDP, checkpointing and DDP put into names."""

BUFFERS = re.compile(r"(?:.*\.)?(?:running_(?:mean|var)|inv_freq|num_batches_tracked|masked_bias)")

NUMBER = re.compile(r"(?:rank\.\d+\.)?(?:\d+:)?\d+")
"""Keys that only count: of a state of several ranks or several optimizers too."""

TRAINER_UNDECAYED = re.compile(
    r"bias|layernorm|rmsnorm|(?:^|\.)norm(?:$|\.)|_norm(?:$|\.)", re.IGNORECASE
)
"""Names that transformers' Trainer puts into the second group, which is not decayed."""

How = Literal["names", "order", "shapes"]
Kind = Literal["absent", "missing", "zero", "moving", "unread"]


@dataclass(frozen=True, slots=True)
class Attributed:
    """How many of the norms are of each kind, and the entries that are theirs or may be."""

    by: How | None
    reason: str = ""
    kinds: Counter[Kind] = field(default_factory=Counter)
    entries: tuple[Entry, ...] = ()
    """Of the norms that have one; for `shapes` at least those."""
    keys: dict[str, str] = field(default_factory=dict)
    """Norm -> its key in the groups, where names or the order tell it."""


def attribute(
    state: OptimizerState,
    tensors: Sequence[Tensor],
    still: Sequence[str],
    ordered: bool,
    zero: Callable[[Entry], bool | None],
) -> Attributed:
    """What the optimizer kept for the norms named in `still`.

    `ordered`: the tensors are in the order of the model's modules, as in a state_dict that
    torch.save wrote; safetensors files are not. `zero` tells whether an entry's moments are.
    """
    if names := _names(state):
        return _by_key(state, _known(names, still, tensors), still, "names", zero)
    weights = [tensor for tensor in tensors if _trains(tensor)]
    if ordered and (keys := _in_order(state, weights)):
        return _by_key(state, keys, still, "order", zero)
    return _by_shape(state, weights, set(still), zero)


def plain(name: str) -> str:
    """A parameter's name without what wrappers put into it."""
    return WRAPPERS.sub("", name)


def _trains(tensor: Tensor) -> bool:
    return tensor.dtype in ("BF16", "F16", "F32", "F64") and not BUFFERS.fullmatch(tensor.name)


def _names(state: OptimizerState) -> dict[str, str]:
    """Name -> key, where the optimizer knows names; {} where it only counts."""
    found = {
        plain(name): key
        for group in state.groups
        for key, name in zip(group.keys, group.names, strict=False)
    }
    keys = [key for group in state.groups for key in group.keys]
    keys += [entry.key for entry in state.entries]
    keys += [master.name for master in state.masters]
    found |= {plain(key): key for key in keys if not NUMBER.fullmatch(key)}
    return found


def _known(
    names: dict[str, str], still: Iterable[str], tensors: Sequence[Tensor]
) -> dict[str, str] | str:
    """Norm -> key. The files may put one word more before names, or the optimizer may."""
    stored = {plain(tensor.name): tensor.name for tensor in tensors}
    best: dict[str, str] = {}
    for more, less in ((stored, names), (names, stored)):
        first = {name.split(".", 1)[0] for name in more}
        for word in ["", *sorted(first)[:50]]:
            lead = f"{word}." if word else ""
            shared = {name for name in less if lead + name in more}
            if len(shared) > len(best):
                theirs = more is names
                best = {
                    stored[name if theirs else lead + name]: names[lead + name if theirs else name]
                    for name in shared
                }
    if 2 * len(best) < len(names):
        return "its names are not those of the weights"
    return {name: best[name] for name in still if name in best}


def _in_order(state: OptimizerState, weights: Sequence[Tensor]) -> dict[str, str] | None:
    """Weight -> key, where the shapes of all entries fit the order of the weights."""
    entries = {entry.key: entry for entry in state.entries}
    for split in (_no_split, _by_dimensions, _by_trainer):
        parts = split(weights)
        if [len(part) for part in parts] != [len(group.keys) for group in state.groups]:
            continue
        pairs = [
            (weight, key)
            for part, group in zip(parts, state.groups, strict=True)
            for weight, key in zip(part, group.keys, strict=True)
        ]
        if all(_fits(weight, entries.get(key)) for weight, key in pairs):
            return {weight.name: key for weight, key in pairs}
    return None


def _no_split(weights: Sequence[Tensor]) -> list[list[Tensor]]:
    return [list(weights)]


def _by_dimensions(weights: Sequence[Tensor]) -> list[list[Tensor]]:
    """nanoGPT's two groups."""
    matrices = [weight for weight in weights if len(weight.shape) > 1]
    return [matrices, [weight for weight in weights if len(weight.shape) < 2]]


def _by_trainer(weights: Sequence[Tensor]) -> list[list[Tensor]]:
    """The two groups of transformers' Trainer."""
    undecayed = [weight for weight in weights if TRAINER_UNDECAYED.search(weight.name)]
    names = {weight.name for weight in undecayed}
    return [[weight for weight in weights if weight.name not in names], undecayed]


def _fits(weight: Tensor, entry: Entry | None) -> bool:
    if entry is None:
        return True
    shape = entry_shape(entry)
    return shape == weight.shape if shape is not None else len(weight.shape) > 1


def entry_shape(entry: Entry) -> tuple[int, ...] | None:
    """The shape of the weight that an entry is for; None where no slot has it."""
    for name in SAME_SHAPE:
        if name in entry.slots:
            return entry.slots[name].shape
    return None


def _by_key(
    state: OptimizerState,
    keys: dict[str, str] | str,
    still: Sequence[str],
    how: How,
    zero: Callable[[Entry], bool | None],
) -> Attributed:
    if isinstance(keys, str):
        return Attributed(None, keys)
    entries = {entry.key: entry for entry in state.entries}
    masters = {master.name for master in state.masters}
    kinds: Counter[Kind] = Counter()
    theirs: list[Entry] = []
    for name in still:
        key = keys.get(name, "")
        if entry := entries.get(key):
            kinds[_kind(entry, zero)] += 1
            theirs.append(entry)
        elif key in masters:
            kinds["unread"] += 1
        else:
            kinds["missing" if name in keys else "absent"] += 1
    return Attributed(how, "", kinds, tuple(theirs), keys)


def _kind(entry: Entry, zero: Callable[[Entry], bool | None]) -> Kind:
    found = zero(entry)
    return "unread" if found is None else "zero" if found else "moving"


def _by_shape(
    state: OptimizerState,
    weights: Sequence[Tensor],
    still: set[str],
    zero: Callable[[Entry], bool | None],
) -> Attributed:
    """What holds for every way to give the entries to the weights of their shape.

    Weights of a shape that no entry has were never stepped. Where each weight of a shape has an
    entry and all entries of it are of one kind, each norm's is; and where only the norms in
    question have the shape, it does not matter which entry is whose.
    """
    shaped = _shaped(state)
    if isinstance(shaped, str):
        return Attributed(None, shaped)
    kinds: Counter[Kind] = Counter()
    theirs: list[Entry] = []
    for shape in sorted({weight.shape for weight in weights if weight.name in still}):
        of_shape = [weight for weight in weights if weight.shape == shape]
        norms = sum(weight.name in still for weight in of_shape)
        entries = shaped.get(shape, [])
        found = Counter(_kind(entry, zero) for entry in entries)
        if not _certain(len(of_shape), norms, len(entries), len(found)):
            reason = (
                f"{len(of_shape):,} weights have the shape {list(shape)} of norms and "
                f"{len(entries):,} entries do, and no names tell which is whose"
            )
            return Attributed(None, reason)
        if len(of_shape) > norms and entries:
            found = Counter({next(iter(found)): norms})
        kinds.update(found)
        kinds["missing"] += norms - found.total()
        theirs += entries
    return _in_groups(state, len(weights), Attributed("shapes", "", kinds, tuple(theirs)))


def _shaped(state: OptimizerState) -> dict[tuple[int, ...], list[Entry]] | str:
    """Shape -> entries of weights that have it, or why that is not known."""
    shaped: dict[tuple[int, ...], list[Entry]] = {}
    for entry in state.entries:
        shape = entry_shape(entry)
        if shape is not None:
            shaped.setdefault(shape, []).append(entry)
        elif not any(name in entry.slots for name in FACTORED):
            return f"nothing that is kept for parameter {shown(entry.key, 40)} has its shape"
    return shaped


def _certain(weights: int, norms: int, entries: int, kinds: int) -> bool:
    if entries > weights:
        return False
    return weights == norms or not entries or (entries == weights and kinds == 1)


def _in_groups(state: OptimizerState, weights: int, found: Attributed) -> Attributed:
    """Whether norms without an entry are in the groups: if all that have none are, or none is."""
    if not found.kinds["missing"]:
        return found
    without = sum(len(group.keys) for group in state.groups) - len(state.entries)
    everywhere = weights - len(state.entries)
    if 0 < without < everywhere:
        reason = (
            f"{everywhere:,} weights have no entry, {without:,} of them are in the groups, and no "
            "names tell which"
        )
        return Attributed(None, reason)
    if without <= 0:
        found.kinds["absent"] = found.kinds.pop("missing")
    return found

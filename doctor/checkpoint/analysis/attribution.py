"""Which of an optimizer's entries belongs to which weight: by evidence, or not at all."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from doctor._util.records import Unknown
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

MatchedBy = Literal["names", "order", "shapes"]
EntryKind = Literal["absent", "missing", "zero", "nonzero", "unread"]
IsZero = Callable[[Entry], bool | None]
"""Whether all moments of an entry are zero; None where that is unknown."""


@dataclass(frozen=True, slots=True)
class NormMatches:
    """How many of the norms are of each kind, and the entries that are theirs or may be."""

    by: MatchedBy | None
    reason: str = ""
    """Why they cannot be matched, where `by` is None."""
    kinds: Counter[EntryKind] = field(default_factory=Counter)
    entries: tuple[Entry, ...] = ()
    """Of the norms that have one; for `shapes` at least those."""
    keys: dict[str, str] = field(default_factory=dict)
    """Norm -> its key in the groups, where names or the order determine it."""


def match_norms(
    state: OptimizerState,
    tensors: Sequence[Tensor],
    norms: Sequence[str],
    ordered: bool,
    is_zero: IsZero,
) -> NormMatches:
    """The entries of the norms with these names.

    `ordered`: the tensors are in the order of the model's modules, as in a state_dict that
    torch.save wrote; safetensors files are not.
    """
    if names := _names(state):
        keys = _keys_by_name(names, norms, tensors)
        if isinstance(keys, Unknown):
            return NormMatches(None, keys.reason)
        return _by_key(state, keys, norms, "names", is_zero)
    weights = [tensor for tensor in tensors if is_trained(tensor)]
    left_out = set(norms)
    without = [tensor for tensor in weights if tensor.name not in left_out]
    for candidates in (weights, without):
        # without: the norms in question are in no group, and all others fit in their order
        if ordered and (in_order := _in_order(state, candidates)):
            return _by_key(state, in_order, norms, "order", is_zero)
    return _by_shape(state, weights, set(norms), is_zero)


def plain(name: str) -> str:
    """A parameter's name without what wrappers put into it."""
    return WRAPPERS.sub("", name)


def is_trained(tensor: Tensor) -> bool:
    """Whether an optimizer can step it: float, and none of the statistics that layers keep."""
    return tensor.dtype in ("BF16", "F16", "F32", "F64") and not BUFFERS.fullmatch(tensor.name)


def _names(state: OptimizerState) -> dict[str, str]:
    """Name -> key, where the optimizer saved names; {} where it numbers its parameters."""
    names = {
        plain(name): key
        for group in state.groups
        for key, name in zip(group.keys, group.names, strict=False)
    }
    keys = [key for group in state.groups for key in group.keys]
    keys += [entry.key for entry in state.entries]
    keys += [master.name for master in state.masters]
    names |= {plain(key): key for key in keys if not NUMBER.fullmatch(key)}
    return names


def _keys_by_name(
    names: dict[str, str], norms: Iterable[str], tensors: Sequence[Tensor]
) -> dict[str, str] | Unknown:
    """Norm -> key. The names of the files or of the optimizer may have one more word in front."""
    stored = {plain(tensor.name): tensor.name for tensor in tensors}
    best: dict[str, str] = {}
    for longer, shorter in ((stored, names), (names, stored)):
        first_words = {name.split(".", 1)[0] for name in longer}
        for word in ["", *sorted(first_words)[:50]]:
            lead = f"{word}." if word else ""
            shared = {name for name in shorter if lead + name in longer}
            if len(shared) <= len(best):
                continue
            if longer is stored:
                best = {stored[lead + name]: names[name] for name in shared}
            else:
                best = {stored[name]: names[lead + name] for name in shared}
    if 2 * len(best) < len(names):
        return Unknown(reason="its names are not those of the weights")
    return {name: best[name] for name in norms if name in best}


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
    keys: dict[str, str],
    norms: Sequence[str],
    by: MatchedBy,
    is_zero: IsZero,
) -> NormMatches:
    entries = {entry.key: entry for entry in state.entries}
    masters = {master.name for master in state.masters}
    kinds: Counter[EntryKind] = Counter()
    matched: list[Entry] = []
    for name in norms:
        key = keys.get(name, "")
        if entry := entries.get(key):
            kinds[_kind(entry, is_zero)] += 1
            matched.append(entry)
        elif key in masters:
            kinds["unread"] += 1
        else:
            kinds["missing" if name in keys else "absent"] += 1
    return NormMatches(by, "", kinds, tuple(matched), keys)


def _kind(entry: Entry, is_zero: IsZero) -> EntryKind:
    zero = is_zero(entry)
    return "unread" if zero is None else "zero" if zero else "nonzero"


def _by_shape(
    state: OptimizerState, weights: Sequence[Tensor], norms: set[str], is_zero: IsZero
) -> NormMatches:
    """What holds for every way to give the entries to the weights of their shape.

    Weights of a shape that no entry has were never stepped. Where each weight of a shape has an
    entry and all entries of it are of one kind, each norm's is; and where only the norms in
    question have the shape, it does not matter which entry is whose.
    """
    entries_by_shape = _entries_by_shape(state)
    if isinstance(entries_by_shape, Unknown):
        return NormMatches(None, entries_by_shape.reason)
    kinds: Counter[EntryKind] = Counter()
    candidates: list[Entry] = []
    for shape in sorted({weight.shape for weight in weights if weight.name in norms}):
        of_shape = [weight for weight in weights if weight.shape == shape]
        count = sum(weight.name in norms for weight in of_shape)
        entries = entries_by_shape.get(shape, [])
        kinds_of_shape = Counter(_kind(entry, is_zero) for entry in entries)
        if not _certain(len(of_shape), count, len(entries), len(kinds_of_shape)):
            reason = (
                f"{len(of_shape):,} weights have the shape {list(shape)} of norms and "
                f"{len(entries):,} entries do, and no names say which is whose"
            )
            return NormMatches(None, reason)
        if len(of_shape) > count and entries:
            kinds_of_shape = Counter({next(iter(kinds_of_shape)): count})
        kinds.update(kinds_of_shape)
        kinds["missing"] += count - kinds_of_shape.total()
        candidates += entries
    return _in_groups(state, len(weights), NormMatches("shapes", "", kinds, tuple(candidates)))


def _entries_by_shape(state: OptimizerState) -> dict[tuple[int, ...], list[Entry]] | Unknown:
    """Shape -> entries of weights of that shape; Unknown where an entry shows no shape."""
    entries: dict[tuple[int, ...], list[Entry]] = {}
    for entry in state.entries:
        shape = entry_shape(entry)
        if shape is not None:
            entries.setdefault(shape, []).append(entry)
        elif not any(name in entry.slots for name in FACTORED):
            return Unknown(reason=f"no slot of parameter {shown(entry.key, 40)} has its shape")
    return entries


def _certain(weights: int, norms: int, entries: int, kinds: int) -> bool:
    if entries > weights:
        return False
    return weights == norms or not entries or (entries == weights and kinds == 1)


def _in_groups(state: OptimizerState, weights: int, matches: NormMatches) -> NormMatches:
    """Whether norms without an entry are in the groups: if all that have none are, or none is."""
    if not matches.kinds["missing"]:
        return matches
    without = sum(len(group.keys) for group in state.groups) - len(state.entries)
    everywhere = weights - len(state.entries)
    if 0 < without < everywhere:
        reason = (
            f"{everywhere:,} weights have no entry, {without:,} of them are in the groups, and no "
            "names say which"
        )
        return NormMatches(None, reason)
    if without <= 0:
        matches.kinds["absent"] = matches.kinds.pop("missing")
    return matches

"""The summary of an optimizer's saved state; formats.optimizer_state reads the state."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from doctor._util.units import shown
from doctor.checkpoint.analysis.attribution import (
    NUMBER,
    IsZero,
    NormMatches,
    is_trained,
    match_norms,
    plain,
)
from doctor.checkpoint.analysis.moments import (
    Reading,
    all_zero,
    compensation_slot,
    moment_dtype,
    moments,
)
from doctor.checkpoint.analysis.norms import LARGEST, ONE
from doctor.checkpoint.io.files import Directory
from doctor.checkpoint.io.open_files import OpenFiles
from doctor.checkpoint.optimizer_slots import MASTERS
from doctor.checkpoint.records import Norm, NormEvidence, Optimizer
from doctor.checkpoint.tensors import Entry, Group, OptimizerState, Tensor

READS = 20_000
"""Reads of moments. Fewer where each is a request."""


def summarize(
    directory: Directory,
    state: OptimizerState,
    tensors: Sequence[Tensor],
    norms: Sequence[Norm],
    ordered: bool = False,
    reads: int = READS,
) -> Optimizer:
    """A state's summary, with evidence about the norms that are at their initial value.

    `tensors` are the model's; `ordered`: they are in the order of its modules, as torch.save keeps
    a state_dict and safetensors does not. `reads` limits the number of reads of moments.
    """
    with OpenFiles(directory) as files:
        evidence, zeros = _read_moments(Reading(files, reads), state, tensors, norms, ordered)
    keys = {key for group in state.groups for key in group.keys}
    with_state = {entry.key for entry in state.entries}
    steps = _steps(state.entries)
    return Optimizer(
        file=shown(state.file, 300),
        kind=_kind(state),
        nonfinite=_nonfinite(state),
        entries=len(state.entries),
        parameters=len(keys | with_state),
        missing=len(keys - with_state - _stateless(state)),
        missing_names=_missing_names(state, with_state),
        moments=dict(Counter(filter(None, map(moment_dtype, state.entries)))),
        moments_follow_weights=bool(state.entries) and all(map(_follows_weights, state.entries)),
        zero_moments=zeros[True],
        nonzero_moments=zeros[False],
        unread_moments=zeros[None],
        step_min=min(steps, default=None),
        step_max=max(steps, default=None),
        lr=tuple(rate for group in state.groups if (rate := _rate(group)) is not None)[:1000],
        current_lr=tuple(rate for group in state.groups if (rate := _finite(group.lr)) is not None)[
            :1000
        ],
        weight_decay=tuple(
            decay for group in state.groups if (decay := _finite(group.weight_decay)) is not None
        )[:1000],
        masters=dict(Counter(master.dtype for master in _masters(state).values())),
        low_masters=state.low_masters,
        compensation=next(filter(None, map(compensation_slot, state.entries)), ""),
        norms=evidence,
    )


def _read_moments(
    reading: Reading,
    state: OptimizerState,
    tensors: Sequence[Tensor],
    norms: Sequence[Norm],
    ordered: bool,
) -> tuple[NormEvidence | None, Counter[bool | None]]:
    """Evidence about the norms at their initial value, None without such norms, and how many
    entries have moments that are all zero (True), that are not (False), and that were not read."""
    initial = [norm for norm in norms if norm.value in ("ones", "zeros")]
    cache: dict[str, bool | None] = {}

    def is_zero(entry: Entry) -> bool | None:
        if entry.key not in cache:
            cache[entry.key] = reading.entry_is_zero(entry)
        return cache[entry.key]

    small_first = sorted(
        state.entries, key=lambda entry: sum(slot.elements for slot in moments(entry))
    )
    reading.prefetch(slot for entry in small_first[: reading.reads] for slot in moments(entry)[:1])
    evidence = None
    if initial:
        evidence = _evidence(state, tensors, initial, ordered, reading, is_zero)
    return evidence, Counter(is_zero(each) for each in small_first if not _cancels(each, is_zero))


def _cancels(entry: Entry, is_zero: IsZero) -> bool:
    """A single number without a gradient: in a loss of differences (critics, pairs, rewards) the
    last layer's bias cancels."""
    slots = moments(entry)
    return bool(slots) and slots[0].shape == (1,) and is_zero(entry) is True


def _evidence(
    state: OptimizerState,
    tensors: Sequence[Tensor],
    norms: Sequence[Norm],
    ordered: bool,
    reading: Reading,
    is_zero: IsZero,
) -> NormEvidence:
    """The state of norms that are at their initial value."""
    names = [norm.name for norm in norms]
    matches = match_norms(state, tensors, names, ordered, is_zero)
    nonzero = [entry for entry in matches.entries if is_zero(entry) is False]
    dtypes = Counter(filter(None, map(moment_dtype, nonzero)))
    steps = _steps(matches.entries)
    masters = Counter(_is_initial(each, reading) for each in _masters_of(state, matches, names))
    return NormEvidence(
        norms=len(norms),
        matched_by=matches.by,
        reason=matches.reason,
        absent=matches.kinds["absent"],
        missing=matches.kinds["missing"],
        zero_moments=matches.kinds["zero"],
        nonzero_moments=matches.kinds["nonzero"],
        unread_moments=matches.kinds["unread"],
        dtypes=dict(dtypes),
        step_min=min(steps, default=None),
        step_max=max(steps, default=None),
        lr_max=_largest_rate(state, matches, names),
        matrices_absent=sum(len(each.shape) > 1 and is_trained(each) for each in tensors)
        > sum(len(group.keys) for group in state.groups),
        masters_changed=masters[False],
        masters_unchanged=masters[True],
    )


def _masters(state: OptimizerState) -> dict[str, Tensor]:
    """Key or name -> the copy of the weight that is stepped."""
    masters = {plain(master.name): master for master in state.masters}
    for entry in state.entries:
        for slot in MASTERS:
            if slot in entry.slots and entry.slots[slot].dtype in ("F32", "F64"):
                masters[entry.key] = entry.slots[slot]
    return masters


def _masters_of(state: OptimizerState, matches: NormMatches, names: Sequence[str]) -> list[Tensor]:
    masters = _masters(state)
    return [
        master
        for name in names
        if (master := masters.get(matches.keys.get(name, "")) or masters.get(plain(name)))
    ]


def _is_initial(master: Tensor, reading: Reading) -> bool | None:
    """Whether a master is all ones or all zeros; None where it is not read."""
    one = ONE.get(master.dtype)
    data = reading.whole(master, LARGEST)
    if data is None or one is None:
        return None
    return data == one * master.elements or all_zero(data, master.dtype)


def _largest_rate(
    state: OptimizerState, matches: NormMatches, names: Sequence[str]
) -> float | None:
    keys = {matches.keys.get(name) for name in names} - {None}
    groups = [group for group in state.groups if keys & {*group.keys}] or state.groups
    return max(filter(None, map(_rate, groups)), default=_zero_rate(groups))


def _zero_rate(groups: Sequence[Group]) -> float | None:
    return 0.0 if groups and all(_rate(group) == 0 for group in groups) else None


def _rate(group: Group) -> float | None:
    return _finite(group.initial_lr if group.initial_lr is not None else group.lr)


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def _steps(entries: Iterable[Entry]) -> list[float]:
    return [step for entry in entries if (step := _finite(entry.step)) is not None]


def _nonfinite(state: OptimizerState) -> tuple[str, ...]:
    """Names of the state's own numbers that are NaN or infinite."""
    numbers_by_name = {
        "step": [entry.step for entry in state.entries],
        "learning rate": [group.lr for group in state.groups],
    }
    return tuple(
        name
        for name, numbers in numbers_by_name.items()
        if any(number is not None and not math.isfinite(number) for number in numbers)
    )


def _stateless(state: OptimizerState) -> set[str]:
    """Parameters of plain SGD: without momentum it keeps nothing for them."""
    return {key for group in state.groups if _plain_sgd(group) for key in group.keys}


def _plain_sgd(group: Group) -> bool:
    return {"dampening", "nesterov"} <= {*group.options} and "momentum" not in group.options


def _missing_names(state: OptimizerState, with_state: set[str]) -> tuple[str, ...]:
    present = with_state | _stateless(state)
    named = chain.from_iterable(
        zip(group.keys, group.names or group.keys, strict=True) for group in state.groups
    )
    missing = (name for key, name in named if key not in present)
    return tuple(shown(name) for name in missing if not NUMBER.fullmatch(name))[:10]


def _follows_weights(entry: Entry) -> bool:
    """Whether its moments have the dtype of the weights, as torch's own optimizers keep them.

    Fused optimizers of other libraries count steps in the group and keep fp32 moments of bf16
    weights; so do Adafactor of transformers and bitsandbytes for small weights.
    """
    if entry.slots.keys() & {*MASTERS, "state1", "exp_avg_sq_row"}:
        return False
    if "momentum_buffer" in entry.slots:
        return True
    return entry.step is not None and moment_dtype(entry) is not None


_KINDS = (
    ("state1", "8-bit (bitsandbytes)"), ("exp_avg_sq_row", "Adafactor"), ("row_var", "Adafactor"),
    ("exp_avg_sq", "Adam"), ("exp_inf", "Adamax"), ("exp_avg", "Lion or another with one moment"),
    ("acc_delta", "Adadelta"), ("square_avg", "RMSprop"), ("sum", "Adagrad"), ("prev", "Rprop"),
    ("ax", "ASGD"),
)  # fmt: skip


def _kind(state: OptimizerState) -> str:
    slots = set(chain.from_iterable(entry.slots for entry in state.entries))
    options = set(chain.from_iterable(group.options for group in state.groups))
    names = [next((name for slot, name in _KINDS if slot in slots), "")]
    if "momentum_buffer" in slots and "square_avg" not in slots:
        muon = options & {"ns_steps", "ns_coefficients"}
        sgd = "dampening" in options
        names.append("Muon" if muon else "SGD with momentum" if sgd else "SGD or Muon")
    kind = " and ".join(filter(None, names))
    if not kind and "betas" in options:
        return "Adam"
    if not kind and {"dampening", "nesterov"} <= options:
        return "SGD" if all(map(_plain_sgd, state.groups)) else "SGD with momentum"
    return kind or "of an unknown kind"

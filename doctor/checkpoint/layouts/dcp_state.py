"""Which tensors of a distributed checkpoint are weights and which an optimizer's state.

Optimizers are kept there by the parameters' names: optimizer.state.NAME.exp_avg as torch and
torchtitan write, optimizer.state.exp_avg.NAME as Megatron does.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.formats.scalars import is_scalar, read_scalar
from doctor.checkpoint.io.files import Directory
from doctor.checkpoint.io.stages import Stage
from doctor.checkpoint.layouts.dcp import read_dcp, shards
from doctor.checkpoint.layouts.dcp_chunks import StoredTensor
from doctor.checkpoint.layouts.dcp_metadata import Dcp
from doctor.checkpoint.optimizer_slots import MASTERS, MOMENTS
from doctor.checkpoint.pickle.nodes import members
from doctor.checkpoint.tensors import Entry, Group, OptimizerState, Shard, Tensor

MODEL = ("model", "state_dict", "module", "app")
"""Keys under which applications keep the model's state_dict."""

OTHERS = frozenset(
    {"lr_scheduler", "scheduler", "opt_param_scheduler", "dataloader", "train_state"}
    | {"rng_state", "random_states", "rerun_state_machine", "loops", "callbacks"}
)
"""Keys of what is neither weights nor optimizer."""

STEPS_READ = 20_000
GROUPS_READ = 4_000

_OPTIMIZER = re.compile(
    r"(?:app\.)?(?P<owner>(?:chained_\d+\.)?(?:optim|optimizer|optimizers|optimizer_states?)(?:\.\d+)?\."
    r"(?:distributed\.\w+\.)?)?(?P<what>state|param_groups)\.(?P<rest>.+)",
    re.DOTALL,
)
_STEP = re.compile(r"(?:.*\.)?(?:global_step|iteration|iter_num|step)")
_SLOTS = frozenset((*MOMENTS, *MASTERS, "step", "max_exp_avg_sq"))
Rates = tuple[float | None, float | None, float | None]
"""Rate, weight decay and first rate of a group."""


@dataclass(slots=True)
class _Sorted:
    """The tensors of a checkpoint, each where it belongs."""

    weights: list[Tensor] = field(default_factory=list)
    slots: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    """Parameter -> slot -> tensor."""


def read_directory(
    directory: Directory, under: str, stage: Stage
) -> tuple[list[Shard], list[Shard]]:
    """Shards of one directory; the first is .metadata and has the optimizer's state.

    There are no files of the optimizer alone.
    """
    dcp = read_dcp(directory, under, stage, _wanted)
    sort = _Sorted()
    rates = {name: tensor for name, tensor in dcp.tensors.items() if _is_option(name)}
    numbers = _numbers(directory, rates.values())
    dcp.objects |= {name: numbers[each] for name, each in rates.items() if each in numbers}
    for name, tensor in dcp.tensors.items():
        if name not in rates:
            _put(sort, dcp.stored[name], tensor)
    about, *files = shards(dcp, sort.weights)
    state = None
    if sort.slots:
        with stage(f"read the step counts of {under or 'the optimizer'}"):
            state = _state(directory, dcp, sort, about.file)
    return [replace(about, optimizer=state, step=_step(dcp)), *files], []


def _wanted(name: str) -> bool:
    return bool(_STEP.fullmatch(name)) or _is_option(name)


def _is_option(name: str) -> bool:
    """Whether it is an option of a group: a number, or a tensor in a capturable optimizer."""
    option = name.rpartition(".")[2]
    return "param_groups." in name and option in ("lr", "weight_decay", "initial_lr", "params")


def _put(sort: _Sorted, stored: StoredTensor, tensor: Tensor) -> None:
    """Into the weights under the model's own name, or into a slot of a parameter."""
    name = stored.name
    if match := _OPTIMIZER.fullmatch(name):
        parameter, slot = _slot(match["rest"])
        if match["what"] == "state" and parameter and (match["owner"] or slot in _SLOTS):
            sort.slots.setdefault(parameter, {})[slot] = msgspec.structs.replace(tensor, name=slot)
        if match["owner"] or slot in _SLOTS:
            return
    path = [str(part) if type(part) in (str, int) else "" for part in stored.path]
    if path[0].split(".", 1)[0] in OTHERS or name.endswith("_extra_state"):
        return
    inner = ".".join(path[1:]) if len(path) > 1 and path[0] in MODEL else name
    sort.weights.append(msgspec.structs.replace(tensor, name=inner or name))


def _slot(rest: str) -> tuple[str, str]:
    """Parameter and slot of an entry, whichever comes first in its name."""
    first, _, after = rest.partition(".")
    parameter, _, last = rest.rpartition(".")
    return (after, first) if first in _SLOTS and after else (parameter, last)


def _state(directory: Directory, dcp: Dcp, sort: _Sorted, file: str) -> OptimizerState:
    steps = _numbers(directory, [slots["step"] for slots in sort.slots.values() if "step" in slots])
    entries = []
    for name, slots in sort.slots.items():
        step = steps.get(slots["step"]) if "step" in slots else None
        other_slots = {slot: tensor for slot, tensor in slots.items() if slot != "step"}
        entries.append(Entry(name, step, other_slots))
    masters = tuple(
        msgspec.structs.replace(tensor, name=name)
        for name, slots in sort.slots.items()
        for slot, tensor in slots.items()
        if slot in MASTERS
    )
    return OptimizerState(file, tuple(_groups(dcp)), tuple(entries), masters)


def _numbers(directory: Directory, tensors: Iterable[Tensor]) -> dict[Tensor, float]:
    """The values of tensors of one element, such as step counts; each file is opened once."""
    by_file: dict[str, list[Tensor]] = {}
    for tensor in list(tensors)[:STEPS_READ]:
        if is_scalar(tensor):
            by_file.setdefault(tensor.file, []).append(tensor)
    values: dict[Tensor, float] = {}
    for file, scalars in by_file.items():
        with contextlib.suppress(CheckpointError), directory.open(file) as source:
            for tensor in scalars:
                if (value := read_scalar(source, tensor)) is not None:
                    values[tensor] = value
    return values


def _groups(dcp: Dcp) -> list[Group]:
    """Groups by number with their lists of names, or groups of the names with equal options."""
    options: dict[str, dict[str, object]] = {}
    for name, value in list(dcp.objects.items())[:GROUPS_READ]:
        _, separator, rest = name.partition("param_groups.")
        owner, _, option = rest.rpartition(".")
        if separator and owner:
            options.setdefault(owner, {})[option] = value
    named = {owner: values for owner, values in options.items() if "params" in values}
    if named:
        return [
            Group(
                _keys(values["params"]),
                (),
                *_rates(values),
            )
            for values in named.values()
        ]
    equal: dict[Rates, list[str]] = {}
    for owner, values in options.items():
        equal.setdefault(_rates(values), []).append(owner)
    return [Group(tuple(owners), (), *rates) for rates, owners in equal.items()]


def _rates(values: Mapping[str, object]) -> Rates:
    rate, decay, initial = map(values.get, ("lr", "weight_decay", "initial_lr"))
    return _number(rate), _number(decay), _number(initial)


def _keys(params: object) -> tuple[str, ...]:
    return tuple(str(key) for key in members(params) if type(key) in (str, int))


def _number(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and abs(value) < 1e18 else None


def _step(dcp: Dcp) -> int | None:
    """The run's own counter, which applications keep in many places."""
    for name, value in dcp.objects.items():
        if type(value) is int and 0 <= value < 2**53 and "param_groups" not in name:
            return value
    return None

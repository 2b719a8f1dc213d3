"""An optimizer's state_dict in the tree of a torch file."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any, Protocol

from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.formats.scalars import is_scalar, read_scalar, scalar_bytes
from doctor.checkpoint.io.files import Source, prefetch
from doctor.checkpoint.optimizer_slots import NESTED
from doctor.checkpoint.pickle.nodes import mapping, members
from doctor.checkpoint.tensors import Entry, Group, OptimizerState, Tensor

READS = 20_000
"""Step counts that are read, each a tensor of one element. Fewer where a read is a request."""

MOST = 1_000_000
"""Parameters of a state that are examined."""

_RATES = ("lr", "weight_decay", "initial_lr")
_GROUP = ("params", "param_names", *_RATES)


class Tree(Protocol):
    """What a torch file holds, as torch_files.read_tree gives it."""

    def optimizers(self) -> list[object]:
        """The optimizers' state_dicts."""
        ...

    def tensor(self, node: object, name: str) -> Tensor | None:
        """Where the bytes of a node are; None for what is no tensor. Raises CheckpointError."""
        ...


def read_state(tree: Tree, file: str, source: Source, reads: int = READS) -> OptimizerState | None:
    """The state of the optimizers in a file; None where there is none.

    Several states, as a run with Muon and AdamW has, come out as one: their keys are numbered,
    as in "1:0".
    """
    states = [mapping(node) for node in tree.optimizers()]
    groups: list[Group] = []
    entries: list[Entry] = []
    for number, state in enumerate(states):
        lead = f"{number}:" if len(states) > 1 else ""
        groups += _groups(state, lead, tree, source)
        entries += _entries(state, lead, tree)
    steps = [step for entry in entries if (step := entry.slots.get("step")) and is_scalar(step)]
    prefetch(source, [scalar_bytes(step) for step in steps[:reads]])
    stepped = tuple(_stepped(entry, source, number < reads) for number, entry in enumerate(entries))
    return OptimizerState(file, tuple(groups), stepped) if states else None


def _groups(state: dict[object, object], lead: str, tree: Tree, source: Source) -> Iterator[Group]:
    for group in map(mapping, members(state.get("param_groups"))):
        keys = [lead + str(key) for key in _plain(group.get("params"))]
        lr, weight_decay, initial_lr = (_rate(group.get(name), tree, source) for name in _RATES)
        names = [name for name in _plain(group.get("param_names")) if isinstance(name, str)]
        yield Group(
            tuple(keys),
            tuple(names) if len(names) == len(keys) else (),
            lr,
            weight_decay,
            initial_lr,
            tuple(key for key in group if type(key) is str and _identifies_kind(key, group))[:100],
        )


def _identifies_kind(option: str, group: dict[object, object]) -> bool:
    """Whether an option identifies the kind; a momentum of 0 does not."""
    return option not in _GROUP and not (option == "momentum" and _number(group[option]) == 0)


def _plain(value: object) -> list[str | int]:
    """The keys in a list; other untrusted objects are not converted to text."""
    return [key for key in members(value)[:MOST] if type(key) in (str, int)]


def _number(value: Any) -> float | None:
    """A number, NaN and infinities too; None for what is none or beyond any step and rate."""
    if type(value) not in (int, float):
        return None
    with contextlib.suppress(OverflowError):
        number = float(value)
        return None if 1e18 <= abs(number) < math.inf else number
    return None


def _rate(value: object, tree: Tree, source: Source) -> float | None:
    """A number, also one in a tensor, as capturable and compiled optimizers keep their rates."""
    number = _number(value)
    if number is not None or (tensor := _tensor(tree, value, "lr")) is None:
        return number
    return _number(read_scalar(source, tensor))


def _entries(state: dict[object, object], lead: str, tree: Tree) -> Iterator[Entry]:
    for key, node in list(mapping(state.get("state")).items())[:MOST]:
        if type(key) not in (str, int):
            continue
        state_of_key = mapping(node)
        state_of_key = {**state_of_key, **mapping(state_of_key.get(NESTED))}
        slots = {
            slot: tensor
            for slot, each in state_of_key.items()
            if type(slot) is str and (tensor := _tensor(tree, each, f"{key}.{slot}"))
        }
        yield Entry(lead + str(key), _number(state_of_key.get("step")), slots)


def _tensor(tree: Tree, node: object, name: str) -> Tensor | None:
    try:
        return tree.tensor(node, name)
    except CheckpointError:
        return None


def _stepped(entry: Entry, source: Source, may_read: bool) -> Entry:
    """The entry with its step count, where that is a tensor."""
    slots = {slot: tensor for slot, tensor in entry.slots.items() if slot != "step"}
    step = entry.step
    if step is None and may_read and "step" in entry.slots:
        step = _number(read_scalar(source, entry.slots["step"]))
    return Entry(entry.key, step, slots)

"""What every reader returns: tensors, and where their bytes are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from doctor.checkpoint.actions import NO_ACTIONS, Actions
from doctor.checkpoint.dtypes import BITS
from doctor.checkpoint.inventory import Inventory
from doctor.checkpoint.records import Problem


class Part(NamedTuple):
    """A range of bytes of one file."""

    file: str
    begin: int
    end: int


class Tensor(msgspec.Struct, frozen=True, gc=False):
    """One tensor and its bytes: `begin` and `end` count from the start of `file`.

    It holds no other object that holds it, so the garbage collector does not track it: a
    checkpoint has up to 100,000.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    elements: int
    file: str
    begin: int
    end: int
    strides: tuple[int, ...] | None = None
    """In elements, from `begin` on; None: C order without gaps."""
    parts: tuple[Part, ...] = ()
    """The ranges of a tensor that lies in several, in order; () where `begin` to `end` is all."""

    @property
    def ranges(self) -> tuple[Part, ...]:
        """Where its bytes are, in order."""
        return self.parts or (Part(self.file, self.begin, self.end),)

    @property
    def stored_bytes(self) -> int:
        """Bytes that it takes in its file or files."""
        if self.parts:
            return sum(part.end - part.begin for part in self.parts)
        return self.end - self.begin


def distinct(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Each range of bytes once: tied weights are one, and a view counts what is stored of it.

    Of views that overlap, the later one begins where the earlier ones end.
    """
    unique: dict[tuple[str, int, int, tuple[Part, ...]], Tensor] = {}
    for tensor in tensors:
        unique.setdefault((tensor.file, tensor.begin, tensor.end, tensor.parts), tensor)
    begins: dict[int, int] = {}
    ends: dict[str, int] = {}
    for tensor in sorted(unique.values(), key=lambda each: (each.begin, -each.end)):
        end = ends.get(tensor.file, 0)
        if not tensor.parts:
            begins[id(tensor)] = min(max(tensor.begin, end), tensor.end)
            ends[tensor.file] = max(end, tensor.end)
    return [
        _counted(msgspec.structs.replace(tensor, begin=begins.get(id(tensor), tensor.begin)))
        for tensor in unique.values()
        if not tensor.elements or begins.get(id(tensor), 0) < tensor.end or tensor.parts
    ]


def _counted(tensor: Tensor) -> Tensor:
    """With no more elements than its bytes hold; those of unknown dtypes are left alone."""
    bits = BITS.get(tensor.dtype)
    if not bits or tensor.elements * bits == tensor.stored_bytes * 8:
        return tensor
    return msgspec.structs.replace(
        tensor, elements=min(tensor.elements, tensor.stored_bytes * 8 // bits)
    )


@dataclass(frozen=True, slots=True)
class Entry:
    """What an optimizer keeps for one parameter."""

    key: str
    """The parameter's name, or its number in the groups."""
    step: float | None
    slots: dict[str, Tensor]
    """exp_avg, exp_avg_sq, momentum_buffer, ... as the optimizer calls them."""


@dataclass(frozen=True, slots=True)
class Group:
    """One of an optimizer's param_groups."""

    keys: tuple[str, ...]
    names: tuple[str, ...] = ()
    """Names in the order of `keys`, where the optimizer knew them."""
    lr: float | None = None
    weight_decay: float | None = None
    initial_lr: float | None = None
    """The initial rate of a schedule, where the group has it."""
    options: tuple[str, ...] = ()
    """Names of the group's other options; they identify the kind of the optimizer."""


@dataclass(frozen=True, slots=True)
class OptimizerState:
    """An optimizer's state as it was saved."""

    file: str
    groups: tuple[Group, ...] = ()
    entries: tuple[Entry, ...] = ()
    masters: tuple[Tensor, ...] = ()
    """fp32 copies of the weights that the optimizer steps, by the parameters' names."""
    low_masters: bool = False
    """DeepSpeed's bf16_master_weights_and_grads is set: there are no fp32 copies."""


def slots(state: OptimizerState) -> Iterator[Tensor]:
    """Every tensor of an optimizer's state, under the parameter's name or number."""
    for entry in state.entries:
        for slot, tensor in entry.slots.items():
            yield msgspec.structs.replace(tensor, name=f"optimizer {entry.key}: {slot}")
    for master in state.masters:
        yield msgspec.structs.replace(master, name=f"optimizer {master.name}: copy of the weight")


def join_states(states: Iterable[OptimizerState | None]) -> OptimizerState | None:
    """The states of several files or ranks as one; None where there is none."""
    present = [state for state in states if state is not None]
    if len(present) < 2:
        return present[0] if present else None
    return OptimizerState(
        present[0].file,
        tuple(group for state in present for group in state.groups),
        tuple(entry for state in present for entry in state.entries),
        tuple(master for state in present for master in state.masters),
        any(state.low_masters for state in present),
    )


@dataclass(frozen=True, slots=True)
class Shard:
    """One file: its tensors, in the order of their bytes, and what is wrong with it."""

    file: str
    size: int
    tensors: tuple[Tensor, ...] = ()
    metadata: dict[str, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    readable: bool = True
    """The header was read; its tensors are all there are."""
    imports: tuple[str, ...] = ()
    """Globals that unpickling it would import, "module.name"."""
    refused: tuple[str, ...] = ()
    """Of these, what torch.load(weights_only=True) refuses."""
    actions: Actions = NO_ACTIONS
    """What unpickling does with the imports."""
    idle: tuple[Inventory, ...] = ()
    """Pickles in it that torch.load does not read."""
    executed: tuple[str, ...] = ()
    """Globals that its loader imports by plain pickle, and that such files do not hold usually."""
    protocol: int = 0
    """The pickles' protocol: above 2, weights-only loading refuses the file."""
    unread: str = ""
    """Why its pickles were not read to their ends; "" where they were."""
    optimizer: OptimizerState | None = None
    step: int | None = None
    """Steps that the run had taken, where the file has a counter (global_step, iter_num)."""
    epoch: int = 0
    """Of the run, where the file counts them."""
    scale: float | None = None
    """Of a GradScaler, where the file holds its state."""
    writer: str = ""
    """The program that wrote it, where its contents show: Lightning, nanoGPT."""
    further: tuple[Tensor, ...] = ()
    """Of other state_dicts in the file: an average of the weights, a discriminator."""
    pickled: bool = False
    """It is a pickle, or an archive with one."""
    config: dict[str, object] = field(default_factory=dict)
    """The model, in the words of config.json, where the file itself describes it."""
    template: str = ""
    """Chat templates that the file holds, one behind the other."""
    named_sizes: dict[str, int] = field(default_factory=dict)
    """Setting of the file, "hyper_parameters.num_classes" -> its number."""
    idle_averages: tuple[str, ...] = ()
    """Counters of updates of averages of the weights that are 0 although steps were taken."""

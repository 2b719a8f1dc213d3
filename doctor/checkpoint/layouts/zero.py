"""What the ranks of one ZeRO engine hold together: masters and moments of every parameter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.layouts.zero_flat import Shapes, group_slices, rank_slices
from doctor.checkpoint.tensors import Entry, Group, OptimizerState, Tensor

Cut = Callable[[Sequence[Shapes], Sequence[Sequence[Tensor]]], list[Tensor]]


@dataclass(slots=True)
class Engine:
    """The files of one rank of tensor parallelism."""

    shapes: list[Shapes] = field(default_factory=list)
    """Of each group of parameters, in order."""
    frozen: Shapes = field(default_factory=dict)
    fragments: dict[str, list[Tensor]] = field(default_factory=dict)
    """Of frozen parameters, one for each rank of ZeRO 3."""
    ranks: list[Rank] = field(default_factory=list)
    step: int | None = None
    low: bool = False
    """bf16_master_weights_and_grads."""


@dataclass(slots=True)
class Rank:
    """What one file of optimizer states holds."""

    stage: int
    count: int
    flats: list[Tensor]
    slots: dict[str, list[Tensor]]
    """Slot -> one tensor for each of `flats`."""
    steps: list[float | None]
    groups: list[dict[Any, Any]]
    begin: bytes = b""
    """The first bytes of the longest of `flats`."""


def assembled(under: str, lead: str, engine: Engine) -> tuple[list[Tensor], OptimizerState | None]:
    """Weights that are only here, and masters and moments of every parameter.

    Raises CheckpointError.
    """
    whole = []
    if engine.frozen and engine.fragments:
        for name, shape in engine.frozen.items():
            pieces = [[fragment] for fragment in engine.fragments.get(name, [])]
            whole += rank_slices([{name: shape}], pieces) if pieces else []
    if not engine.ranks:
        return [_led(lead, tensor) for tensor in whole], None
    ranks = engine.ranks
    count = ranks[0].count or len(ranks)
    if len(ranks) < count:
        raise CheckpointError("lost-rank", f"has {len(ranks)} of {count} files of optimizer states")
    if len(ranks) > count:
        raise CheckpointError(
            "damaged", f"has {len(ranks)} files of optimizer states, {count} are of a run"
        )
    _of_one_save(ranks)
    cut = rank_slices if ranks[0].stage == 3 else group_slices
    masters = cut(engine.shapes, [rank.flats for rank in ranks])
    if ranks[0].stage == 3:
        whole += masters
    steps = [step for rank in ranks for step in rank.steps if step is not None]
    entries = _entries(lead, engine, cut, steps[0] if steps else None)
    led = [_led(lead, master) for master in masters]
    groups = tuple(_groups(lead, engine))
    state = OptimizerState(f"{under}*_optim_states.pt", groups, entries, tuple(led), engine.low)
    return [_led(lead, tensor) for tensor in whole], state


FEWEST = 64
"""Bytes of several values that two ranks cannot have in common."""


def _of_one_save(ranks: Sequence[Rank]) -> None:
    """Raises CheckpointError where the ranks' files are of several saves, or copies."""
    steps = sorted({step for rank in ranks for step in rank.steps[:1] if step is not None})
    if len(steps) > 1:
        text = f"has optimizer states of steps {steps[0]:g} and {steps[-1]:g}, of one required"
        raise CheckpointError("damaged", text)
    begins = [rank.begin for rank in ranks if len(set(rank.begin)) > FEWEST]
    if len(ranks) > 1 and len(set(begins)) < len(begins):
        raise CheckpointError("damaged", "has the same optimizer states for two ranks, as a copy")


def _led(lead: str, tensor: Tensor) -> Tensor:
    return msgspec.structs.replace(tensor, name=lead + tensor.name)


def _entries(lead: str, engine: Engine, cut: Cut, step: float | None) -> tuple[Entry, ...]:
    """Every parameter's moments: the slots that are as long as the masters."""
    slots_of: dict[str, dict[str, Tensor]] = {name: {} for group in engine.shapes for name in group}
    lengths = [[flat.elements for flat in rank.flats] for rank in engine.ranks]
    for slot in engine.ranks[0].slots:
        flats = [rank.slots.get(slot, []) for rank in engine.ranks]
        if [[flat.elements for flat in each] for each in flats] == lengths:
            for tensor in cut(engine.shapes, flats):
                slots_of[tensor.name][slot] = msgspec.structs.replace(tensor, name=slot)
    return tuple(Entry(lead + name, step, slots) for name, slots in slots_of.items() if slots)


def _groups(lead: str, engine: Engine) -> list[Group]:
    """One for each of the engine's; those of ZeRO 3 are not the files' groups one by one."""
    options = engine.ranks[0].groups
    same = len(options) == len(engine.shapes)
    return [
        Group(
            tuple(lead + name for name in shapes),
            (),
            rate(options[number].get("lr")) if same else None,
            rate(options[number].get("weight_decay")) if same else None,
            rate(options[number].get("initial_lr")) if same else None,
            tuple(key for key in options[number] if type(key) is str)[:100] if same else (),
        )
        for number, shapes in enumerate(engine.shapes)
    ]


def rate(value: object) -> float | None:
    if type(value) is int or type(value) is float:
        return float(value) if abs(value) < 1e18 else None
    return None

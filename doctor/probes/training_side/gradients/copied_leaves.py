"""Copies of parameters that the loss is computed from in their place: leaves of its graph.

torch.func.stack_module_state, copy.deepcopy, clone().detach().requires_grad_() and
nn.Parameter(...) make new leaves: they get the gradients, and the parameters of the module none.
"""

from __future__ import annotations

import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

import torch
from torch.overrides import TorchFunctionMode

from ..foreign import Arguments, Foreign, Function, Options, Types, graphs, places
from ..foreign.observing import storage_address
from ..subject import unregistered
from ..subject.training_step import Training
from ..values.value_origins import tensors
from . import gradient_zeros

SHOWN, MOST = 3, 100_000
"""Shapes in a text, and storages whose lines are remembered."""
SECONDS = 10.0
"""No further leaf is compared after this."""
SAMPLED = 8
"""Elements of a tensor that are compared before all of them."""
ALIKE = 8
"""Different values with the same elements there that are distinguished."""
Line = Tuple[str, str]
"""Place and code."""


class Births(TorchFunctionMode):
    """The lines that make tensors: those of the factory, and of a forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: Dict[int, Line] = {}
        """Address of a storage -> the last line whose result it holds."""

    def __torch_function__(
        self, func: Function, types: Types, args: Arguments = (), kwargs: Optional[Options] = None
    ) -> Foreign:
        result = func(*args, **(kwargs or {}))
        for each in tensors(result) if len(self._lines) < MOST else ():
            if each.is_floating_point() and not has_graph(each) and (at := storage_address(each)):
                self._lines[at] = places.innermost()[0]
        return result

    def line(self, leaf: torch.Tensor) -> Line:
        return self._lines.get(storage_address(leaf), ("", ""))


def has_graph(tensor: torch.Tensor) -> bool:
    try:
        return tensor.grad_fn is not None
    except RuntimeError:  # a view that was made under no_grad, of what was changed since
        return False


class Copy(NamedTuple):
    """A leaf of the loss that is no parameter of the model."""

    leaf: torch.Tensor
    names: Set[str]
    """Parameters with its values."""
    stacked: bool
    """It holds those of several of them."""


class Values(NamedTuple):
    """Parameters that hold the same values."""

    weight: torch.Tensor
    """One of them."""
    names: Set[str]


Key = Tuple[Any, ...]
"""Shape, dtype, device and some elements of a tensor."""
Known = Dict[Key, List[Values]]


def find(loss: torch.Tensor, module: torch.nn.Module, wanted: Dict[str, Any]) -> List[Copy]:
    """The leaves that hold the values of `wanted`, parameters that the loss does not depend on."""
    deadline = time.monotonic() + SECONDS
    own = {id(each) for each in module.parameters()}
    others = {id(each): each for each in graphs.leaves(loss.grad_fn) if id(each) not in own}
    known = by_values(wanted) if others else {}
    shapes = {key[0] for key in known}
    copies = []
    for leaf in others.values():
        if time.monotonic() > deadline:
            break
        if same := equal(leaf, known, shapes):
            copies.append(Copy(leaf, same, False))
        elif rows := among(leaf, known, shapes):
            copies.append(Copy(leaf, rows, True))
    return copies


def by_values(wanted: Dict[str, Any]) -> Known:
    known: Known = {}
    for name, weight in wanted.items():
        for key in keys(weight.detach()[None]) if comparable(weight) else ():
            alike = known.setdefault(key, [])
            same = [each for each in alike if torch.equal(each.weight, weight)]
            if same:
                same[0].names.add(name)
            elif len(alike) < ALIKE:
                alike.append(Values(weight, {name}))
    return known


def comparable(tensor: torch.Tensor) -> bool:
    return tensor.layout == torch.strided and not tensor.is_meta and tensor.numel() > 0


def keys(rows: torch.Tensor) -> List[Key]:
    """That of each row."""
    flat = rows.reshape(len(rows), -1)
    sampled = flat[:, :: -(-flat.shape[1] // SAMPLED)]
    kind = rows.shape[1:], rows.dtype, rows.device
    return [(*kind, *each) for each in sampled.tolist()]


def equal(leaf: torch.Tensor, known: Known, shapes: Set[Any]) -> Set[str]:
    """The parameters that this leaf is a copy of."""
    if leaf.shape not in shapes or not comparable(leaf):
        return set()
    alike = known.get(keys(leaf.detach()[None])[0], ())
    return next((each.names for each in alike if torch.equal(each.weight, leaf)), set())


def among(leaf: torch.Tensor, known: Known, shapes: Set[Any]) -> Set[str]:
    """The parameters that are one of the rows of the leaf."""
    if leaf.shape[1:] not in shapes or not comparable(leaf) or not leaf.dim():
        return set()
    rows = leaf.detach()
    positions: Dict[Key, List[int]] = {}
    for row, key in enumerate(keys(rows)):
        if key in known and len(positions.setdefault(key, [])) < ALIKE:
            positions[key].append(row)
    names: Set[str] = set()
    for key, alike in positions.items():
        for each in known[key]:
            if any(torch.equal(each.weight, rows[row]) for row in alike):
                names |= each.names
    return names


def cuts(copies: Sequence[Copy], births: Births, training: Training) -> List[Dict[str, Any]]:
    """One doctor.facts.diagnosis.Cut for each line that makes copies."""
    update = training.update
    groups = [] if update is None else update.optimizer.param_groups
    held = {id(each) for group in groups for each in group["params"]}
    by_line: Dict[Line, List[Copy]] = {}
    for each in copies:
        by_line.setdefault(births.line(each.leaf), []).append(each)
    records = []
    for (place, code), group in by_line.items():
        known = {id(each.leaf) for each in group}
        remark = "in your optimizer" if known & held else ""
        key = "copied", described(group, place, attributes(training.subject.module, known))
        names = set().union(*{id(each.names): each.names for each in group}.values())
        records += gradient_zeros.records({(*key, place, code, "", remark, True): names})
    return records


def described(group: Sequence[Copy], place: str, attributes: Sequence[str]) -> str:
    """ "4 other tensors with their values, stacked ([3, 16, 8], ...), held in params"."""
    shapes = ", ".join(str(list(each.leaf.shape)) for each in group[:SHOWN])
    where = ", held in %s" % ", ".join(attributes) if attributes else ""
    if not place:  # no function of torch made its memory anew
        where += ", which nn.Parameter(...) made over the same memory"
    return "%d other tensor%s with their values%s (%s%s)%s" % (
        len(group),
        "s" * (len(group) > 1),
        ", stacked" if any(each.stacked for each in group) else "",
        shapes,
        ", ..." * (len(group) > SHOWN),
        where,
    )


def attributes(module: torch.nn.Module, leaves: Set[int]) -> List[str]:
    """The attributes of modules that hold these tensors, directly or in a list or dict."""
    return [
        name
        for name, value in unregistered.attributes(module).items()
        if any(id(each) in leaves for each in (value, *values_of(value)))
    ][:SHOWN]


def values_of(value: Foreign) -> Iterator[Foreign]:
    if isinstance(value, torch.nn.Module):
        yield from value.parameters()
    else:
        for _, each in unregistered.members(value):
            yield each
            if isinstance(each, torch.nn.Module):
                yield from each.parameters()

"""Copies of parameters that the loss is computed from in their place: leaves of its graph.

Imported by gradient_cuts.py; standard library and torch only, Python 3.9. torch.func.
stack_module_state, copy.deepcopy, clone().detach().requires_grad_() and nn.Parameter(...) make new
leaves: they get the gradients, and the parameters of the module none.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

import torch
import wire
from torch.overrides import TorchFunctionMode

gradient_zeros = wire.sibling("gradient_zeros")
places = wire.sibling("places")
unregistered = wire.sibling("unregistered")

tensors = wire.sibling("value_origins").tensors

SHOWN = 3
Line = Tuple[str, str]
"""Place and code."""


class Births(TorchFunctionMode):
    """The lines that make tensors: those of the factory, and of a forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: Dict[int, Line] = {}
        """Address of a storage -> the last line whose result it holds."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for each in tensors(result):
            if each.is_floating_point() and each.grad_fn is None and (at := address(each)):
                self._lines[at] = places.innermost()[0]
        return result

    def line(self, leaf: torch.Tensor) -> Line:
        return self._lines.get(address(leaf), ("", ""))


def address(tensor: torch.Tensor) -> int:
    try:
        return int(tensor.untyped_storage().data_ptr())
    except Exception:  # sparse and other tensors have no storage
        return 0


class Copy(NamedTuple):
    """A leaf of the loss that is no parameter of the model."""

    leaf: torch.Tensor
    names: Set[str]
    """Parameters with its values."""
    stacked: bool
    """It holds those of several of them."""


def find(loss: torch.Tensor, module: torch.nn.Module, wanted: Dict[str, Any]) -> List[Copy]:
    """The leaves that hold the values of `wanted`, parameters that the loss does not depend on."""
    own = {id(each) for each in module.parameters()}
    others = {id(each): each for each in gradient_zeros.leaves(loss.grad_fn) if id(each) not in own}
    copies = []
    for leaf in others.values():
        same = {name for name, each in wanted.items() if equal(leaf, each)}
        rows = {name for name, each in wanted.items() if not same and among(leaf, each)}
        if same or rows:
            copies.append(Copy(leaf, same or rows, bool(rows)))
    return copies


def equal(leaf: torch.Tensor, weight: torch.Tensor) -> bool:
    return leaf.shape == weight.shape and bool((leaf.detach() == weight.detach()).all())


def among(leaf: torch.Tensor, weight: torch.Tensor) -> bool:
    """Whether one of the rows of the leaf is that parameter."""
    if leaf.dim() != weight.dim() + 1 or leaf.shape[1:] != weight.shape:
        return False
    same = (leaf.detach() == weight.detach()).reshape(len(leaf), -1)
    return bool(same.all(1).any())


def cuts(copies: Sequence[Copy], births: Births, training: Any) -> List[Dict[str, Any]]:
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
        names = set().union(*(each.names for each in group))
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
        "%s.%s" % (prefix, name) if prefix else name
        for prefix, part in module.named_modules()
        for name, value in list(vars(part).items())
        if name not in vars(torch.nn.Module())
        if any(id(each) in leaves for each in (value, *values_of(value)))
    ][:SHOWN]


def values_of(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.nn.Module):
        yield from value.parameters()
    else:
        for _, each in unregistered.members(value):
            yield each
            if isinstance(each, torch.nn.Module):
                yield from each.parameters()

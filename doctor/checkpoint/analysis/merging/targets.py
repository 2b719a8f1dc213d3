"""The weights of a base that adapters change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from doctor._util.units import shown
from doctor.checkpoint.analysis.conversions import FUSED
from doctor.checkpoint.analysis.merging.adapter import Adapter, Factors
from doctor.checkpoint.analysis.merging.names import Model, NameIndex
from doctor.checkpoint.analysis.merging.products import Part
from doctor.checkpoint.tensors import Tensor


@dataclass(slots=True)
class Target:
    """One weight of the base, and which factors of which adapters change it."""

    base: Tensor
    merged: Tensor | None
    parts: list[tuple[int, Part]] = field(default_factory=list)
    """Number of the adapter, and its factors."""


def find_targets(
    merged: Model | None, base: Model, adapters: Sequence[Adapter], unread: list[str]
) -> tuple[list[Target], dict[int, list[str]]]:
    """The weights that adapters change; and for each adapter the modules that have none.

    `unread` gets those whose weight peft names by its own module.
    """
    targets: dict[str, Target] = {}
    unmatched: dict[int, list[str]] = {}
    for number, adapter in enumerate(adapters):
        for module, factors in adapter.factors.items():
            if not factors.whole or adapter.unsupported:
                continue
            weight, part = _weight(base.index, module, factors)
            if weight is None and adapter.parameters:
                unread.append(f"{shown(module, 200)}: its parameter has another name")
                continue
            if weight is None:
                unmatched.setdefault(number, []).append(module)
                continue
            target = targets.get(weight.name)
            if target is None:
                other = merged.index.find(weight.name) if merged else None
                target = targets[weight.name] = Target(weight, other)
            target.parts.append((number, part))
    return list(targets.values()), unmatched


def _weight(index: NameIndex, module: str, factors: Factors) -> tuple[Tensor | None, Part]:
    """The module's weight, or the one that it is fused into."""
    if found := index.find(f"{module}.weight") or index.find(module):
        return found, Part(factors)
    owner, _, last = module.rpartition(".")
    for fused, parts in FUSED:
        if last in parts and (found := index.find(f"{owner}.{fused}.weight")):
            return found, Part(factors, parts.index(last), len(parts))
    return None, Part(factors)

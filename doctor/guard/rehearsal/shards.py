"""Which weights a value that is saved has itself, or has only this rank's part of."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Dict, Iterator, List, Tuple

from ..foreign import Foreign
from ..parameters import local
from .state import in_memory

DEPTH, MOST = 3, 10_000
"""Dicts inside of dicts, and their entries, that are looked at."""


def parts_in(torch: ModuleType, value: Foreign) -> List[str]:
    """The names of those weights, as the value has them."""
    kind = getattr(sys.modules.get("torch.distributed.tensor"), "DTensor", None)
    if kind is None or not isinstance(value, dict):
        return []
    shapes: Dict[str, Foreign] = {}
    for module in in_memory(torch)["module"]:
        for name, parameter in module.named_parameters():
            if isinstance(parameter, kind) and _is_part(parameter):
                shapes.setdefault(name, set()).add(tuple(parameter.to_local().shape))
    found = []
    for name, tensor in _tensors(torch, value):
        if isinstance(tensor, kind):
            part = _is_part(tensor)
        else:
            part = tuple(tensor.shape) in shapes.get(name, ())
        if part:
            found.append(name)
    return found


def shares_weights(torch: ModuleType, value: Foreign) -> bool:
    """Whether tensors of it are the memory of weights that an optimizer trains, and no copies."""
    held = in_memory(torch)["optimizer"]
    groups = [group for each in held for group in getattr(each, "param_groups", None) or ()]
    trained = {local(p).data_ptr() for group in groups for p in group["params"]} - {0}
    found = _tensors(torch, value) if isinstance(value, dict) else ()
    return any(local(tensor).data_ptr() in trained for _, tensor in found)


def _is_part(tensor: Foreign) -> bool:
    return bool(tensor.to_local().numel() < tensor.numel())


def _tensors(torch: ModuleType, value: Foreign) -> Iterator[Tuple[str, Foreign]]:
    """The tensors of a dict, and of those in it."""
    level, seen = [value], 0
    for _ in range(DEPTH):
        below = []
        for held in level:
            for name, each in list(held.items()):
                seen += 1
                if seen > MOST:
                    return
                if isinstance(each, torch.Tensor):
                    yield str(name), each
                elif isinstance(each, dict):
                    below.append(each)
        level = below

"""Lists of tensors that the program keeps in attributes and in variables of its script."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Dict, List

from ..foreign import Foreign
from .attributes import is_own
from .state import in_memory

LONGEST, MOST = 200, 50
"""Characters of a name, and lists."""


def lists_of_tensors(torch: ModuleType, batch: int = 0) -> Dict[str, int]:
    """Name -> length of each list whose last thing is a tensor, or holds one; with a `batch`, one
    of several numbers for each of its samples, as losses, means and a curve are not."""
    held = in_memory(torch)
    objects = [*held["own"], *(each for each in held["module"] if is_own(type(each)))]
    several: Dict[str, int] = {}
    for each in objects:
        several[type(each).__name__] = several.get(type(each).__name__, 0) + 1
    found: Dict[str, int] = {}
    for each in objects:
        if several[type(each).__name__] == 1:
            _add(torch, f"{type(each).__name__}.", each.__dict__, found, batch)
    if "__main__" in sys.modules:
        _add(torch, "", vars(sys.modules["__main__"]), found, batch)
    return found


def _add(
    torch: ModuleType, prefix: str, held: Dict[str, Foreign], found: Dict[str, int], batch: int
) -> None:
    for name, value in list(held.items()):
        listed = type(value) is list and value and len(found) < MOST
        if listed and _has_tensor(torch, value[-1], batch):
            found[f"{prefix}{name}"[:LONGEST]] = len(value)


def _has_tensor(torch: ModuleType, value: Foreign, batch: int) -> bool:
    parts: List[Foreign] = [value]
    if isinstance(value, (tuple, list)):
        parts = list(value)
    elif isinstance(value, dict):
        parts = list(value.values())
    tensors = [each for each in parts if type(each) is torch.Tensor]
    return any(not batch or (each.dim() > 1 and each.shape[0] == batch) for each in tensors)

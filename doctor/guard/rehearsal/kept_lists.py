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


def lists_of_tensors(torch: ModuleType) -> Dict[str, int]:
    """Name -> length of each list whose last thing is a tensor, or holds one."""
    held = in_memory(torch)
    objects = [*held["own"], *(each for each in held["module"] if is_own(type(each)))]
    several: Dict[str, int] = {}
    for each in objects:
        several[type(each).__name__] = several.get(type(each).__name__, 0) + 1
    found: Dict[str, int] = {}
    for each in objects:
        if several[type(each).__name__] == 1:
            _add(torch, f"{type(each).__name__}.", each.__dict__, found)
    if "__main__" in sys.modules:
        _add(torch, "", vars(sys.modules["__main__"]), found)
    return found


def _add(torch: ModuleType, prefix: str, held: Dict[str, Foreign], found: Dict[str, int]) -> None:
    for name, value in list(held.items()):
        if type(value) is list and value and len(found) < MOST and _has_tensor(torch, value[-1]):
            found[f"{prefix}{name}"[:LONGEST]] = len(value)


def _has_tensor(torch: ModuleType, value: Foreign) -> bool:
    parts: List[Foreign] = [value]
    if isinstance(value, (tuple, list)):
        parts = list(value)
    elif isinstance(value, dict):
        parts = list(value.values())
    return any(type(each) is torch.Tensor for each in parts)

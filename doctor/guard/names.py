"""Names of parameters, as the model has them."""

from __future__ import annotations

import gc
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

WRAPPERS = ("_fsdp_wrapped_module.", "_orig_mod.", "_checkpoint_wrapped_module.")
"""What FSDP, torch.compile and activation checkpointing put into names."""


def names_of(torch: ModuleType, flat: list[Tensor]) -> dict[int, str]:
    """Position in `flat` -> name in the model, in the order of the modules.

    The model is the largest one in memory that holds the parameters.
    """
    index = {id(p): i for i, p in enumerate(flat)}
    kind = torch.nn.Module
    modules = [o for o in gc.get_objects() if issubclass(type(o), kind)]
    children = {id(child) for m in modules for child in m.__dict__.get("_modules", {}).values()}
    best: dict[int, str] = {}
    for module in modules:
        if id(module) in children:
            continue
        names = {
            index[id(p)]: _clean(name) for name, p in module.named_parameters() if id(p) in index
        }
        if len(names) > len(best):
            best = names
    return best


def _clean(name: str) -> str:
    """The name without what wrappers add."""
    for wrapper in WRAPPERS:
        name = name.replace(wrapper, "")
    return name.removeprefix("module.") if hasattr(name, "removeprefix") else name

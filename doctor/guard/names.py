"""Names of parameters, as the model has them."""

from __future__ import annotations

import gc
from itertools import compress
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from .foreign import Foreign

if TYPE_CHECKING:
    from torch import Tensor

WRAPPERS = ("_fsdp_wrapped_module.", "_orig_mod.", "_checkpoint_wrapped_module.")
"""What FSDP, torch.compile and activation checkpointing put into names."""


def names_of(torch: ModuleType, flat: list[Tensor]) -> dict[int, str]:
    """Position in `flat` -> name in the model, in the order of the modules."""
    model = objects_of(torch, flat).model
    return {} if model is None else _names(model, flat)


def _names(module: Foreign, flat: list[Tensor]) -> dict[int, str]:
    index = {id(p): i for i, p in enumerate(flat)}
    return {index[id(p)]: _clean(name) for name, p in module.named_parameters() if id(p) in index}


class Objects(NamedTuple):
    """The largest model in memory that holds some parameters, None without one, all modules that
    no other one holds, and all optimizers whose parameters belong to models."""

    model: Foreign
    roots: list[Foreign]
    optimizers: list[Foreign]


def objects_of(torch: ModuleType, flat: list[Tensor]) -> Objects:
    """Those in memory now."""
    modules, every = _instances([torch.nn.Module, torch.optim.Optimizer])
    children = {id(child) for m in modules for child in m.__dict__.get("_modules", {}).values()}
    roots = [module for module in modules if id(module) not in children]
    model = max(roots, key=lambda root: len(_names(root, flat)), default=None)
    owned = {id(p) for m in modules for p in m.__dict__.get("_parameters", {}).values()}
    optimizers = [each for each in every if _is_of(each, owned)]
    found = model if model is not None and _names(model, flat) else None
    return Objects(found, roots, optimizers)


def reached_elsewhere(torch: ModuleType) -> tuple[str, int] | None:
    """The class of the model with the most parameters that have gradients and are in no optimizer,
    and how many; None where there is none."""
    modules, optimizers = _instances([torch.nn.Module, torch.optim.Optimizer])
    groups = [g for o in optimizers for g in o.__dict__.get("param_groups", ())]
    held = {id(p) for group in groups for p in group["params"]}
    children = {id(child) for m in modules for child in m.__dict__.get("_modules", {}).values()}
    found = [
        (sum(p.grad is not None and id(p) not in held for p in m.parameters()), type(m).__name__)
        for m in modules
        if id(m) not in children
    ]
    count, name = max(found, default=(0, ""))
    return (name, count) if count else None


def _instances(bases: list[Foreign]) -> list[list[Foreign]]:
    """Everything in memory of each of these classes or of one below it.

    There are hundreds of thousands of objects, so each is looked at once, without a line of Python
    for it, and the classes are listed before.
    """
    kinds = [_with_subclasses(base) for base in bases]
    every = set().union(*kinds)
    objects = gc.get_objects()
    found = list(compress(objects, map(every.__contains__, map(type, objects))))
    return [[o for o in found if type(o) in each] for each in kinds]


def _with_subclasses(base: Foreign) -> set[Foreign]:
    found, open_ = {base}, [base]
    while open_:
        new = set(type.__subclasses__(open_.pop())) - found
        found |= new
        open_ += new
    return found


def _is_of(optimizer: Foreign, owned: set[int]) -> bool:
    groups = optimizer.__dict__.get("param_groups", ())
    return all(id(p) in owned for group in groups for p in group["params"])


def _clean(name: str) -> str:
    """The name without what wrappers add."""
    for wrapper in WRAPPERS:
        name = name.replace(wrapper, "")
    return name.removeprefix("module.") if hasattr(name, "removeprefix") else name

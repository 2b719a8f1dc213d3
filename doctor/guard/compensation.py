"""Whether an optimizer keeps what 16-bit weights round away."""

from __future__ import annotations

import re
from types import FunctionType
from typing import TYPE_CHECKING

from .foreign import Foreign

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

COMPENSATES = re.compile(r"kahan|compens|shift|residual|master|stochastic", re.IGNORECASE)
"""Keys of state or groups that keep what 16-bit weights round away."""
COMPENSATING_MODULES = ("torchao", "optimi", "apex", "transformer_engine", "deepspeed")
MOST_WRAPPERS = 10


def compensates(optimizer: Optimizer, parameters: list[Tensor]) -> bool:
    """By its module, by the keys of its state and groups, and by the names in its code: a class of
    one's own may round stochastically in a function of such a name."""
    module = type(optimizer).__module__.partition(".")[0]
    state: Foreign = next((optimizer.state[p] for p in parameters if p in optimizer.state), {})
    keys = [*state, *(key for group in optimizer.param_groups for key in group)]
    keys += _names_in_code(type(optimizer))
    return module in COMPENSATING_MODULES or any(COMPENSATES.search(str(k)) for k in keys)


def _names_in_code(kind: type) -> list[str]:
    """What the methods of a class call, apart from those of torch's own classes."""
    names: list[str] = []
    for owner in kind.__mro__:
        if owner.__module__.partition(".")[0] in ("torch", "builtins"):
            continue
        for method in vars(owner).values():
            for _ in range(MOST_WRAPPERS):
                if isinstance(method, (staticmethod, classmethod)):
                    method = method.__func__
                elif isinstance(method, FunctionType):
                    method = vars(method).get("__wrapped__", method)
            if isinstance(method, FunctionType):
                names += method.__code__.co_names
    return names

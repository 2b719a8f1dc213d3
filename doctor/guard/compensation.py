"""Whether an optimizer keeps what 16-bit weights round away."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .foreign import Foreign

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

COMPENSATES = re.compile(r"kahan|compens|shift|residual|master|stochastic", re.IGNORECASE)
"""Keys of state or groups that keep what 16-bit weights round away."""
COMPENSATING_MODULES = ("torchao", "optimi", "apex", "transformer_engine", "deepspeed")


def compensates(optimizer: Optimizer, parameters: list[Tensor]) -> bool:
    """By its module, and by the keys of its state and groups."""
    module = type(optimizer).__module__.partition(".")[0]
    state: Foreign = next((optimizer.state[p] for p in parameters if p in optimizer.state), {})
    keys = [*state, *(key for group in optimizer.param_groups for key in group)]
    return module in COMPENSATING_MODULES or any(COMPENSATES.search(str(k)) for k in keys)

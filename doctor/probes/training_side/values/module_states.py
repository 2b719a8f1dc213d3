"""Tensors beside the parameters that a module carries from step to step: running statistics, moving
averages, codebooks, queues.
"""

from __future__ import annotations

from typing import Dict, List

import torch

from ..foreign import Foreign
from ..subject.unregistered import attributes, members
from . import inspect_step


def of_module(module: torch.nn.Module) -> Dict[str, torch.Tensor]:
    """Buffers, and tensors that attributes of a module hold directly or in a list or dict, by
    name."""
    states: Dict[str, torch.Tensor] = dict(module.named_buffers())
    for name, value in attributes(module).items():
        if isinstance(value, torch.Tensor):
            states[name] = value
        for key, each in members(value):
            if isinstance(each, torch.Tensor):
                states["%s[%r]" % (name, key)] = each
    return states


def nonfinite(module: torch.nn.Module) -> List[str]:
    """Those that are not finite; a mask may hold -inf."""
    return [name for name, each in of_module(module).items() if _is_bad(name, each)]


def _is_bad(name: str, value: Foreign) -> bool:
    if value.layout != torch.strided or value.is_meta:
        return False
    return bool(inspect_step.nonfinite_and_not_mask(name, value.detach()))

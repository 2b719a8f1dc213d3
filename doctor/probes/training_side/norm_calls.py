"""Norms whose every statistic is that of one value: their result does not depend on their input.

Imported by loss_calls.py; standard library and torch only, Python 3.9.
"""

from __future__ import annotations

import math
import sys
from typing import Any, Dict

import torch
import wire

places = wire.sibling("places")
gradient_zeros = wire.sibling("gradient_zeros")

LISTED = 4
"""Names in a text."""


def over_one_value(name: str, args: Any, options: Dict[str, Any], model: torch.nn.Module) -> str:
    """ "layer_norm in train.py, line 12, of what 0.weight, 0.bias compute", "" for any other call.

    `name` is that of the function, as in torch.nn.functional. Only inputs that are trained count.
    """
    if name not in SIZES or not args or not isinstance(args[0], torch.Tensor):
        return ""
    x, second = args[0], args[1] if len(args) > 1 else next(iter(options.values()), None)
    if not x.requires_grad or not x.numel() or SIZES[name](x, second) != 1:
        return ""
    (place, _), _ = places.innermost()
    before = {id(each) for each in gradient_zeros.leaves(x.grad_fn)}
    names = [name for name, each in model.named_parameters() if id(each) in before]
    more = " and %d more" % (len(names) - LISTED) if names[LISTED:] else ""
    of = "of what %s%s compute" % (", ".join(names[:LISTED]), more) if names else ""
    where = " in ".join(filter(None, (name, place, calling_module(model))))
    return ", ".join(filter(None, (where, of)))


SIZES: Dict[str, Any] = {
    "layer_norm": lambda x, shape: math.prod(shape),
    "rms_norm": lambda x, shape: math.prod(shape),
    "group_norm": lambda x, groups: x[0].numel() // int(groups),
}
"""Norm -> the number of values of each of its statistics."""


def calling_module(model: torch.nn.Module) -> str:
    """ "1 (LayerNorm)": the module of torch that is running."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        module = frame.f_locals.get("self")
        if isinstance(module, torch.nn.Module) and type(module).__module__.startswith("torch."):
            names = [name for name, each in model.named_modules() if each is module and name]
            return "%s (%s)" % (names[0], type(module).__name__) if names else ""
        frame = frame.f_back
    return ""

"""Norms whose every statistic is that of one value, or of two: the difference of one value from its
mean is 0, that of two values from theirs, divided by the deviation, 1 and -1.
"""

from __future__ import annotations

import math
import sys
from typing import Any, Dict, Optional

import torch

from ..foreign import Arguments, Foreign, Options, descriptions, graphs, places

LISTED = 4
"""Names in a text."""


def values_of_statistics(name: str, args: Arguments, options: Options) -> int:
    """The number of values of each statistic, 1 or 2, if the result hardly depends on the input;
    else 0. `name` is that of the function, as in torch.nn.functional."""
    if name not in SIZES or not args or not isinstance(args[0], torch.Tensor):
        return 0
    x = args[0]
    if not x.requires_grad or not x.numel():
        return 0
    size = SIZES[name](x, args[1:], options)
    return int(size) if size == 1 or (size == 2 and name in CENTERED) else 0


def described(name: str, args: Arguments, model: torch.nn.Module) -> str:
    """ "layer_norm in train.py, line 12, of what 0.weight, 0.bias compute"."""
    (place, _), _ = places.innermost()
    before = {id(each) for each in graphs.leaves(args[0].grad_fn)}
    names = [name for name, each in model.named_parameters() if id(each) in before]
    of = "of what %s compute" % descriptions.listed(names, LISTED) if names else ""
    where = " in ".join(filter(None, (name, place, calling_module(model))))
    return ", ".join(filter(None, (where, of)))


def second(rest: Foreign, options: Options) -> Foreign:
    """The second argument of a norm, whatever its name is."""
    return rest[0] if rest else next(iter(options.values()), None)


def of_batch(x: torch.Tensor, rest: Foreign, options: Options) -> int:
    """Values of a channel, 0 with running statistics."""
    training = options.get("training", rest[4] if len(rest) > 4 else False)
    return x.numel() // x.shape[1] if training and x.dim() > 1 else 0


SIZES: Dict[str, Any] = {
    "layer_norm": lambda x, rest, options: math.prod(second(rest, options)),
    "rms_norm": lambda x, rest, options: math.prod(second(rest, options)),
    "group_norm": lambda x, rest, options: x[0].numel() // int(second(rest, options)),
    "batch_norm": of_batch,
}
"""Norm -> the number of values of each of its statistics."""
CENTERED = ("layer_norm", "group_norm", "batch_norm")
"""Norms that subtract the mean."""


def calling_module(model: torch.nn.Module) -> str:
    """ "1 (LayerNorm)": the module of torch that is running."""
    module = running()
    names = [name for name, each in model.named_modules() if each is module and name]
    return "%s (%s)" % (names[0], type(module).__name__) if names else ""


def running() -> Optional[torch.nn.Module]:
    """The innermost module of torch that is running, None if there is none."""
    for frame in places.outwards(sys._getframe(1)):
        module = frame.f_locals.get("self")
        if isinstance(module, torch.nn.Module) and type(module).__module__.startswith("torch."):
            return module
    return None

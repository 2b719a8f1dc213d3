"""Derivatives that torch.autograd.grad returns as zeros, because the function has no curvature."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional

from torch.overrides import TorchFunctionMode

from ..foreign import Arguments, Foreign, Function, Options, Types, places
from ..values import follow_step
from ..values.value_origins import tensors
from . import zero_origins

FIRST = re.compile(r"(?P<name>[A-Z]\w*?)(?:With\w+)?BackwardBackward\d*")
"""Operations of a first derivative: "ThresholdBackwardBackward0"."""
LINEAR = {
    "Threshold": "ReLU",
    "LeakyRelu": "LeakyReLU",
    "RreluWithNoise": "RReLU",
    "PreluKernel": "PReLU",
    "Hardtanh": "Hardtanh",
    "Hardsigmoid": "Hardsigmoid",
    "MaxPool2D": "max_pool2d",
}
"""Operations that are linear piece by piece -> what the code calls them."""


class Derivatives(TorchFunctionMode):
    """Tells a zero_origins.ZeroOrigins of derivatives of derivatives that are 0 throughout."""

    def __init__(self, origins: Any) -> None:
        super().__init__()
        self._origins = origins

    def __torch_function__(
        self, func: Function, types: Types, args: Arguments = (), kwargs: Optional[Options] = None
    ) -> Foreign:
        result = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") == "grad" and args:
            made = [each for each in tensors(result) if zero_origins.is_zero(each)]
            through = kinks(args[0]) if made else []
            for each in made if through else ():
                name = "the second derivative through %s" % ", ".join(through)
                self._origins.note(each, zero_origins.Origin(name, *places.innermost()[0]))
        return result


def kinks(outputs: Foreign) -> List[str]:
    """The operations that are linear piece by piece whose derivative these values hold."""
    names: Dict[str, None] = {}
    for value in tensors(outputs):
        for node in follow_step.nodes(value.grad_fn) if value.grad_fn is not None else ():
            match = FIRST.fullmatch(node.name())
            if match and match["name"] in LINEAR:
                names[LINEAR[match["name"]]] = None
    return list(names)

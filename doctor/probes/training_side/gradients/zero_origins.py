"""The operation that made values 0 throughout out of values that are not, and its line.

A forward pass runs under a dispatch mode, which follows zeros from result to result, so that the
factor of 0 of a product is traced to the division of whole numbers, the mask or the difference that
it comes from.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Tuple

import torch

from ..foreign import Arguments, Foreign, Function, Options, Types, containers, observing, places
from ..values import value_origins
from ..values.value_origins import tensors


class Origin(NamedTuple):
    """What made values 0."""

    name: str
    """As torch names it, "floor_divide"; of a parameter, a buffer or the batch: "the buffer x"."""
    place: str = ""
    """The user's line; "" of what is 0 before the forward pass."""
    code: str = ""

    @property
    def text(self) -> str:
        code = " (`%s`)" % self.code if self.code else ""
        return "%s in %s%s" % (self.name, self.place, code) if self.place else self.name


class ZeroOrigins(observing.DispatchMode):
    """Follows tensors of zeros from the operation that made them."""

    def __init__(self, module: torch.nn.Module, batch: Foreign) -> None:
        super().__init__()
        self._origins: Dict[Tuple[int, int], Tuple[Origin, torch.Tensor]] = {}
        """Address and size of a tensor -> its origin, and the tensor, which keeps its memory."""
        named = {
            **{"the parameter " + name: each for name, each in module.named_parameters()},
            **{"the buffer " + name: each for name, each in module.named_buffers()},
            **{value_origins.in_batch(n): each for n, each in containers.tensors(batch).items()},
        }
        for name, each in named.items():
            self.note(each, Origin(name))

    def __torch_dispatch__(
        self, func: Function, types: Types, args: Arguments = (), kwargs: Optional[Options] = None
    ) -> Foreign:
        options = kwargs or {}
        entries = [self.of(each) for each in tensors((args, options)) if is_zero(each)]
        result = func(*args, **options)
        passed_on = next((each for each in entries if each is not None), None)
        for each in tensors(result):
            self._origins.pop(observing.memory_of(each), None)
            self.note(each, passed_on or Origin(named(func, each, args, options), *line()))
        return result

    def note(self, tensor: torch.Tensor, origin: Origin) -> None:
        """Remember what made this tensor 0, unless it is not."""
        if is_zero(tensor):
            self._origins[observing.memory_of(tensor)] = origin, tensor

    def of(self, tensor: Any) -> Optional[Origin]:
        """What made this tensor 0; None if it is not 0, or that is not known."""
        if not isinstance(tensor, torch.Tensor):
            return None
        entry = self._origins.get(observing.memory_of(tensor))
        return None if entry is None else entry[0]


def line() -> Tuple[str, str]:
    return places.innermost()[0]


def is_zero(tensor: torch.Tensor) -> bool:
    if tensor.layout != torch.strided or tensor.is_meta or not tensor.numel():
        return False
    try:
        return not bool(tensor.any())
    except Exception:  # not for this dtype
        return False


def named(func: Function, result: torch.Tensor, args: Arguments, options: Options) -> str:
    """The operation in the words of the code that calls it."""
    name = (str(func).split(".")[1] if "." in str(func) else str(func)).strip("_")
    first = args[0] if args and isinstance(args[0], torch.Tensor) else None
    of_floats = first is not None and first.is_floating_point()
    if name == "to_copy" and of_floats and not result.is_floating_point():
        return "the conversion to %s" % str(result.dtype).replace("torch.", "")
    if name == "lift_fresh":
        return "a constant"
    rounding = options.get("rounding_mode")
    return "%s(rounding_mode='%s')" % (name, rounding) if rounding else name

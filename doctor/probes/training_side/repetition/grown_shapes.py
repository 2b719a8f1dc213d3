"""What a size comes from: [N] with [N, 1], which broadcast to [N, N], and tensors that were joined
or flattened.
"""

from __future__ import annotations

import math
import weakref
from typing import Any, Dict, List, NamedTuple

import torch

from ..foreign import places
from ..values import value_origins

JOINING = (
    "cat",
    "concat",
    "concatenate",
    "hstack",
    "vstack",
    "stack",
    "flatten",
    "view",
    "reshape",
)
PRODUCTS = ("linear", "matmul", "mm", "bmm", "addmm", "einsum", "conv1d", "conv2d", "conv3d")
"""Their results have the sizes of their weights."""
MOST = 4
"""Shapes of tensors that were joined."""
COLUMN = ("unsqueeze", "__getitem__", "view", "reshape")
"""[N, 1] that these make of [N] is meant for all pairs."""


class Origin(NamedTuple):
    """What gave a tensor its sizes."""

    grown: Dict[str, Any]
    """The Grown of an operation on [N] and [N, 1]; {} if there was none."""
    joined: Dict[str, Any]
    """The Joined of what was joined or flattened, {} if nothing was."""
    column: bool
    """Whether it is [N, 1], made of [N] on purpose."""


NOTHING = Origin({}, {}, False)


class Sizes:
    """Follows the tensors of a forward pass from call to call."""

    def __init__(self) -> None:
        self._origins: Dict[int, Any] = {}

    def of(self, tensor: torch.Tensor) -> Origin:
        reference, origin = self._origins.get(id(tensor), (None, NOTHING))
        return origin if reference is not None and reference() is tensor else NOTHING

    def follow(self, name: str, args: Any, kwargs: Dict[str, Any], result: Any) -> None:
        """Note what the results of a call have from its arguments; never raises."""
        try:
            self._follow(name, args, kwargs, result)
        except Exception:  # subclasses of tensors may refuse anything
            return

    def _follow(self, name: str, args: Any, kwargs: Dict[str, Any], result: Any) -> None:
        if name == "__get__" or not isinstance(result, (torch.Tensor, tuple, list)):
            return
        inputs = list(value_origins.tensors((args, kwargs)))
        for made in value_origins.tensors(result):
            if any(made is each for each in inputs):
                continue
            origin = self._origin(name, inputs, made)
            if origin != NOTHING:
                self._origins[id(made)] = weakref.ref(made), origin

    def _origin(self, name: str, inputs: List[torch.Tensor], made: torch.Tensor) -> Origin:
        if name in PRODUCTS or not made.dim():
            return NOTHING
        before = [self.of(each) for each in inputs]
        grown = self._grown(inputs, made) or next(
            (
                each.grown
                for each in before
                if each.grown and made.numel() >= math.prod(each.grown["result"])
            ),
            {},
        )
        joined: Dict[str, Any] = {}
        if name in JOINING:
            shapes = [list(each.shape) for each in inputs[:MOST]]
            place = places.innermost()[0][0]
            joined = {"type": "Joined", "function": name, "shapes": shapes, "place": place}
        elif inputs and inputs[0].shape == made.shape:
            joined = before[0].joined
        column = name in COLUMN and len(inputs) == 1 and inputs[0].dim() == 1
        return Origin(grown, joined, column)

    def _grown(self, inputs: List[torch.Tensor], made: torch.Tensor) -> Dict[str, Any]:
        """The line of the user's code in which [N] and [N, 1] made [N, N]."""
        pair = sorted(inputs[:2], key=torch.Tensor.dim)
        if len(inputs) != 2 or pair[0].dim() != 1 or pair[1].dim() < 2:
            return {}
        row, column = pair
        count = len(row)
        expected = (count, *[1] * (column.dim() - 1))
        if count < 2 or column.shape != expected or made.shape != (*expected[:-1], count):
            return {}
        (place, code), through = places.innermost()
        if not place or through or self.of(column).column:
            return {}
        shapes = {"row": [count], "column": list(column.shape), "result": list(made.shape)}
        line = {"place": place, "code": code}
        return {"type": "Grown", "name": places.name_of(row), "line": line, **shapes}


def observations(sizes: Sizes, args: Any, kwargs: Dict[str, Any]) -> List[Dict[str, Any]]:
    """What the sizes of a refused call's arguments come from."""
    origins = [sizes.of(each) for each in value_origins.tensors((args, kwargs))]
    grown = [each.grown for each in origins if each.grown]
    joined = [each.joined for each in origins if each.joined]
    return grown[:1] + joined[:1]

"""What a size comes from: [N] with [N, 1], which broadcast to [N, N], and tensors that were joined
or flattened.
"""

from __future__ import annotations

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
COLUMN = ("unsqueeze", "__getitem__", "view", "reshape")
"""[N, 1] that these make of [N] is meant for all pairs."""


class Origin(NamedTuple):
    """What gave a tensor its sizes."""

    grown: Dict[str, str]
    """Line, shapes and result of an operation on [N] and [N, 1]; {} if there was none."""
    joined: str
    """ "cat of [8, 16] and [8, 1] in train.py, line 12"; "" if nothing was joined."""
    column: bool
    """Whether it is [N, 1], made of [N] on purpose."""


NOTHING = Origin({}, "", False)


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
                if each.grown and made.numel() >= int(each.grown["grown numbers"])
            ),
            {},
        )
        joined = ""
        if name in JOINING:
            joined = "%s of %s" % (name, " and ".join(str(list(each.shape)) for each in inputs[:4]))
            joined += ", ..." * (len(inputs) > 4) + " in %s" % places.innermost()[0][0]
        elif inputs and inputs[0].shape == made.shape:
            joined = before[0].joined
        column = name in COLUMN and len(inputs) == 1 and inputs[0].dim() == 1
        return Origin(grown, joined, column)

    def _grown(self, inputs: List[torch.Tensor], made: torch.Tensor) -> Dict[str, str]:
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
        name = places.name_of(row)
        return {
            "grown at": "%s (`%s`)" % (place, code),
            "grown shapes": "%s%s and %s" % (name and name + " ", [count], list(column.shape)),
            "grown to": str(list(made.shape)),
            "grown numbers": str(made.numel()),
            "grown name": name,
        }


def observed(sizes: Sizes, args: Any, kwargs: Dict[str, Any]) -> Dict[str, str]:
    """What the sizes of a refused call's arguments come from."""
    fields: Dict[str, str] = {}
    for each in value_origins.tensors((args, kwargs)):
        origin = sizes.of(each)
        if "grown at" not in fields:
            fields.update(origin.grown)
        if origin.joined and "joined" not in fields:
            fields["joined"] = origin.joined
    return fields

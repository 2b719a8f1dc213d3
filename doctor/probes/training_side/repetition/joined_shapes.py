"""What a size comes from: tensors that were joined or flattened before the call that raised, and
views that put other values than the samples first."""

from __future__ import annotations

import weakref
from typing import Any, Dict, List, Tuple

import torch

from ..foreign import places
from ..values import value_origins

JOINED = ("cat", "concat", "concatenate", "hstack", "vstack", "stack")
VIEWS = ("flatten", "view", "reshape")
JOINING = (*JOINED, *VIEWS)
PRODUCTS = ("linear", "matmul", "mm", "bmm", "addmm", "einsum", "conv1d", "conv2d", "conv3d")
"""Their results have the sizes of their weights."""
MOST = 4
"""Shapes of tensors that were joined, and views."""
Record = Dict[str, Any]


class Sizes:
    """Follows the tensors of a forward pass from call to call."""

    def __init__(self, samples: int) -> None:
        self._samples = samples
        self.regrouped: List[Record] = []
        self._joined: Dict[int, Tuple[Any, Record]] = {}
        """Id of a tensor -> a weak reference, and the Joined that its sizes come from."""

    def of(self, tensor: torch.Tensor) -> Record:
        """{} if nothing was joined."""
        reference, record = self._joined.get(id(tensor), (None, {}))
        return record if reference is not None and reference() is tensor else {}

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
        if name in VIEWS and isinstance(result, torch.Tensor):
            self._note_view(name, inputs[0], result)
        for made in value_origins.tensors(result):
            record = self._of(name, inputs, made)
            if record and not any(made is each for each in inputs):
                self._joined[id(made)] = weakref.ref(made), record

    def _note_view(self, name: str, value: torch.Tensor, result: torch.Tensor) -> None:
        before, after = list(value.shape), list(result.shape)
        if len(before) > 1 and before[0] == self._samples > 1 and after[:1] != before[:1]:
            place, code = places.innermost()[0]
            fields = {"before": before, "after": after, "place": place, "code": code}
            self.regrouped.append({"type": "Regrouped", "function": name, **fields})

    def _of(self, name: str, inputs: List[torch.Tensor], made: torch.Tensor) -> Record:
        if name in PRODUCTS or not made.dim():
            return {}
        if name in JOINING:
            shapes = [list(each.shape) for each in inputs[:MOST]]
            place = places.innermost()[0][0]
            return {"type": "Joined", "function": name, "shapes": shapes, "place": place}
        return self.of(inputs[0]) if inputs and inputs[0].shape == made.shape else {}


def observations(sizes: Sizes, args: Any, kwargs: Dict[str, Any]) -> List[Record]:
    """What the size of the first such argument of a refused call comes from, and the last views."""
    records = map(sizes.of, value_origins.tensors((args, kwargs)))
    return [*[each for each in records if each][:1], *sizes.regrouped[-MOST:]]

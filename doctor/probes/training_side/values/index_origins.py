"""Whether an index holds values of the batch, and the line that computes it if it does not."""

from __future__ import annotations

from typing import Dict, List, Tuple

import torch

from ..foreign import Arguments, Foreign, containers, places
from .reshaping import RESHAPING

SELECTING = ("gather", "take", "index_select", "masked_select", "where", "masked_fill", "roll",
             "cat", "stack", "narrow", "pad", "flip", "new_full", "__setitem__", "repeat",
             "as_tensor", "squeeze_", "clamp", "int", "long")  # fmt: skip
"""Functions beside RESHAPING whose values are those of their inputs, or a constant of the code."""


class IndexOrigins:
    """Follows whole numbers from the leaves of a batch through one forward pass."""

    def __init__(self, batch: Foreign) -> None:
        leaves = list(containers.tensors(batch).values())
        self._kept: List[torch.Tensor] = leaves
        self._of_batch = {id(each) for each in leaves}
        self._made: Dict[int, Tuple[str, str, str]] = {}

    def follow(self, name: str, args: Arguments, result: Foreign) -> None:
        """Note what a function of torch made."""
        for each in result if isinstance(result, (tuple, list)) else (result,):
            if not isinstance(each, torch.Tensor) or each.is_floating_point():
                continue
            if id(each) in self._of_batch:
                continue
            self._kept.append(each)  # so that its id stays its own
            if name in (*RESHAPING, *SELECTING) and self._reads_the_batch(args):
                self._of_batch.add(id(each))
            elif frame := places.user_frame():
                self._made[id(each)] = (name.strip("_"), *places.line(frame))

    def _reads_the_batch(self, args: Arguments) -> bool:
        first = args[0] if args else None
        members = first if isinstance(first, (list, tuple)) else (first,)
        return any(id(each) in self._of_batch for each in members)

    def computed(self, index: torch.Tensor) -> str:
        """ "result of cumsum in train.py, line 12 (`...`)" if the code computes it, else ""."""
        if id(index) in self._of_batch or id(index) not in self._made:
            return ""
        function, place, code = self._made[id(index)]
        return "the result of %s in %s (`%s`)" % (function, place, code)

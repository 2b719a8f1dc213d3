"""Where a value without graph, which the code differentiates itself, lost its graph.

torch.autograd.grad and backward() in the user's code raise there, before the loss is computed.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import torch
from torch.overrides import TorchFunctionMode

from ..foreign import Arguments, Foreign, Function, Options, Types, observing, places
from ..values.value_origins import tensors
from . import gradient_cuts, gradient_zeros

Key = Tuple[Any, ...]
"""A gradient_zeros.Key."""


class Ends(TorchFunctionMode):
    """Follows values from the function whose result has no graph although its inputs have one."""

    def __init__(self) -> None:
        super().__init__()
        self._ends: Dict[int, Key] = {}
        """Id of a tensor -> where the graph ended that it was computed from."""
        self._held: List[torch.Tensor] = []
        """Tensors that are kept, so that no other gets the same id."""
        self.end: Optional[Key] = None
        """That of the values that grad() or backward() refused."""

    def __torch_function__(
        self, func: Function, types: Types, args: Arguments = (), kwargs: Optional[Options] = None
    ) -> Foreign:
        options = kwargs or {}
        name = observing.function_name(func)
        try:
            result = func(*args, **options)
        except RuntimeError:
            if name in ("grad", "backward") and args:
                known = [self._ends.get(id(each)) for each in tensors(args[0])]
                self.end = next(filter(None, known), None)
            raise
        made = list(tensors(result))
        if made and not gradient_cuts.SHAPED_ALIKE.fullmatch(name):
            self._follow(name, list(tensors((args, options))), made)
        return result

    def _follow(self, name: str, inputs: List[Any], made: List[Any]) -> None:
        without = [each for each in made if not each.requires_grad]
        if not without:
            return
        key: Optional[Key] = None
        if any(each.requires_grad for each in inputs):
            place, code = places.innermost()[0]
            key = gradient_cuts.kind_of(name, made), name, place, code, "", "", True
        else:
            key = next(filter(None, (self._ends.get(id(each)) for each in inputs)), None)
        if key is not None:
            self._ends.update((id(each), key) for each in without)
            self._held += without


def cuts(ends: Ends) -> Dict[str, Any]:
    """{"cuts": [...]} with the end that was found, {} if there is none."""
    if ends.end is None:
        return {}
    return {"cuts": gradient_zeros.records({ends.end: set()})}

"""Averages of the weights that are no modules: tensors that an object or a variable holds."""

from __future__ import annotations

import re
import sys
from types import ModuleType
from typing import Dict, Iterator, List, Tuple

from ..foreign import Foreign
from ..parameters import local

CLASS = re.compile(r"EMA|Ema(?![a-z])|Averag|Polyak|Shadow|SWA")
VARIABLE = re.compile(r"(^|_)(ema|shadow|averaged?|polyak|swa)(_|$)", re.IGNORECASE)
"""Names that say that the tensors are an average."""
SET_ASIDE = re.compile("backup|collected|stored|temp|orig", re.IGNORECASE)
"""Names of weights that are kept while the average is in the model."""


def holds_average(kind: type) -> bool:
    """Whether objects of this class are to be looked into: those of modules are found as such."""
    return bool(CLASS.search(kind.__name__)) and kind.__dictoffset__ != 0


def shadows(
    torch: ModuleType, holders: List[Foreign], optimizers: List[Foreign]
) -> Iterator[Tuple[str, Foreign]]:
    """Names, which begin like those of copies, and tensors that are shaped like the weights."""
    trained = [p for o in optimizers for group in o.param_groups for p in group["params"]]
    shapes = {tuple(local(each).shape) for each in trained}
    elements = sum(local(each).numel() for each in trained)
    own = {local(each).data_ptr() for each in trained}

    def tensors(value: Foreign) -> Dict[str, Foreign]:
        """Of a dict or list that holds nothing but copies of weights, of at least half of them."""
        if not isinstance(value, (dict, list, tuple)) or not value:
            return {}
        pairs: Foreign = value.items() if isinstance(value, dict) else enumerate(value)
        held = {str(key): each for key, each in pairs if isinstance(each, torch.Tensor)}
        fit = all(
            each.is_floating_point() and tuple(local(each).shape) in shapes
            and local(each).data_ptr() not in own
            for each in held.values()
        )  # fmt: skip
        enough = 2 * sum(each.numel() for each in held.values()) >= elements
        return held if fit and enough and len(held) == len(value) else {}

    places = [(type(each).__name__, dict(vars(each))) for each in holders]
    script = dict(vars(sys.modules["__main__"])) if "__main__" in sys.modules else {}
    places.append(("script", {n: v for n, v in script.items() if VARIABLE.search(n)}))
    taken: Dict[str, int] = {}
    for owner, attributes in places:
        for attribute, value in attributes.items():
            if SET_ASIDE.search(attribute):
                continue
            held = tensors(value)
            if not held:
                continue
            place = f"{owner}.{attribute}"
            taken[place] = number = taken.get(place, 0) + 1
            prefix = f"({place}) " if number == 1 else f"({place}) {number}: "
            for key, tensor in held.items():
                yield prefix + key, tensor

"""Values of another scale than what gets them needs: activations that are flat there, and cosines
that a softmax cannot tell apart."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional

import torch

from ..foreign import Arguments, Foreign, containers, observing, places

FLAT, MOSTLY, LEAST = 4.0, 0.5, 64
"""Where the slope of a sigmoid is below 2 % and that of tanh below 0.2 %, the share of the values
beyond, and how many there are at least. Our own numbers."""
PRODUCTS = ("matmul", "mm", "bmm", "einsum", "linear")
UNIT = 0.02
"""Of a length of 1; bf16 rounds each value to 3 digits."""
KEPT = 8
"""Products that are compared with the logits."""
NEAR_UNIFORM = 0.8
"""Of the loss of uniform predictions. Our own number: cosines times 1 reach 0.54 of it in a batch
of 64, and times 0.07 no less than 0.97."""


class ScaleCalls:
    """Looks at the inputs of sigmoids and tanh, and at cosines that become logits."""

    def __init__(self) -> None:
        self._saturated: Dict[str, float] = {}
        self._cosines: List[torch.Tensor] = []

    def saturated(self) -> List[str]:
        """ "92 % of what sigmoid in train.py, line 12, gets"."""
        return [
            "%.0f %% of what %s gets" % (100 * share, line)
            for line, share in self._saturated.items()
        ]

    def note(self, name: str, args: Arguments, result: Foreign) -> None:
        name = name.strip("_")
        if name in ("sigmoid", "tanh") and args[0].requires_grad and args[0].numel() >= LEAST:
            share = float((observing.plain(args[0]).abs() > FLAT).float().mean())
            if share >= MOSTLY:
                line = "%s in %s" % (name, places.innermost()[0][0])
                self._saturated[line] = max(share, self._saturated.get(line, 0.0))
        elif name in PRODUCTS and isinstance(result, torch.Tensor) and result.dim() > 1:
            tensors = list(containers.tensors(args).values())
            if len(tensors) == 2 and all(_has_unit_rows(each) for each in tensors):
                self._cosines = [*self._cosines, observing.plain(result)][-KEPT:]

    def scaled(self, logits: torch.Tensor) -> Optional[str]:
        """What the factor of logits that are cosines allows a cross entropy, if that is near the
        loss of uniform predictions: "cosines times 0.07: ..."."""
        if logits.dim() != 2 or logits.shape[1] < 2:
            return None
        plain = observing.plain(logits).float()
        for cosines in self._cosines:
            factor = _ratio(plain, cosines.float())
            uniform = math.log(logits.shape[1])
            least = math.log1p((logits.shape[1] - 1) * math.exp(-2 * factor))
            if factor and least > NEAR_UNIFORM * uniform:
                text = (
                    "cosines times %.3g, with which it cannot fall below %.3g: uniform predictions"
                )
                return "%s of %d give %.3g" % (text % (factor, least), logits.shape[1], uniform)
        return None


def _has_unit_rows(value: torch.Tensor) -> bool:
    """Whether the vectors along one of the last two axes have length 1, and are no numbers of +-1
    or 0 by themselves, as one-hot rows are."""
    if not value.is_floating_point() or value.dim() < 2 or not value.numel():
        return False
    plain = observing.plain(value).float()
    lengths = (plain.norm(dim=axis) for axis in (-1, -2) if plain.shape[axis] > 1)
    return any(bool(((each - 1).abs() < UNIT).all()) for each in lengths) and bool(
        (plain.abs().amax() < 1 - UNIT) & (plain != 0).any()
    )


def _ratio(logits: torch.Tensor, cosines: torch.Tensor) -> float:
    """The factor between both, 0.0 if there is none; some entries may be masked."""
    for each in (cosines, cosines.mT):
        if each.shape != logits.shape:
            continue
        large = each.abs() > 0.5 * each.abs().mean()
        ratios: Any = logits[large] / each[large]
        middle = float(ratios.median()) if ratios.numel() else 0.0
        if middle and float(((ratios / middle - 1).abs() < 2 * UNIT).float().mean()) > 1 - 2 * UNIT:
            return abs(middle)
    return 0.0

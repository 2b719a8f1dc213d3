"""Weights that something else than the optimizer sets, between two comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, List, Optional, Tuple

from . import codes
from . import thresholds as limit
from .foreign import Foreign
from .parameters import part, view
from .records import NOTE, Alarm, Look

if TYPE_CHECKING:
    from torch import Tensor

BOUNDED = ("Adam", "AdamW")
"""Of torch: a step moves a weight by about the learning rate, whatever its gradient is."""


class Overwritten:
    """Elements of the matrices of one optimizer, as they were at the comparison before.

    `alarm` is there once two comparisons in a row found them further away than the steps between
    lead, and without likeness: a weight that is restored or averaged is like the one before.
    """

    def __init__(self, torch: Foreign) -> None:
        self._torch = torch
        self._before: Dict[Tuple[Foreign, Foreign], Tuple[int, Foreign]] = {}
        self._row = 0
        self.alarm: Optional[Alarm] = None

    def look(self, flat: List[Tensor], look: Look, submit: Foreign) -> None:
        """After a step; to be called without recording a graph."""
        if not look.adaptive or look.name not in BOUNDED:
            return
        kinds: Dict[Tuple[Foreign, Foreign], List[Foreign]] = {}
        matrices = [each for each in look.tracked if not each.vector and not each.half]
        for each in matrices[: limit.MOST_LAYERS]:
            now = view(self._torch, part(flat[each.index]), False)
            kinds.setdefault((now.device, now.dtype), []).append(now)
        for kind, some in kinds.items():
            now = self._torch.cat(some)
            since, before = self._before.get(kind, (look.effective, now))
            self._before[kind] = look.effective, now
            if since < look.effective and before.shape == now.shape:
                cosine = self._torch.nn.functional.cosine_similarity(now, before, dim=0)
                mean = (now - before).abs().mean()
                steps = look.effective - since
                submit([self._torch.stack([mean, cosine])], self._deliver(look, steps))

    def _deliver(self, look: Look, steps: int) -> Foreign:
        def deliver(values: List[Foreign]) -> None:
            mean, cosine = values[0] or (0.0, 1.0)
            most = steps * max(look.rates)
            alien = mean > most and cosine < limit.LIKE_BEFORE
            self._row = self._row + 1 if alien else 0
            if self._row == limit.OVERWRITTEN:
                text = (
                    f"the weights are {mean:.2g} away from those of {steps} steps before, on "
                    f"average, and unlike them; these steps, at a learning rate of up to "
                    f"{max(look.rates):.2g}, lead {most:.2g} away at most. It was so at the "
                    "comparison before, too: something else sets them"
                )
                code = codes.TRAINING_WEIGHTS_MOVE
                self.alarm = Alarm(code, NOTE, look.step, text, "overwritten", look.optimizer)

        return deliver

    def taken(self) -> List[Alarm]:
        """The alarm, once."""
        alarm, self.alarm = self.alarm, None
        return [] if alarm is None else [alarm]

"""Notices weights that are others while they are saved, as an average in the model is."""

from __future__ import annotations

from types import ModuleType
from typing import List

from ..foreign import Foreign
from ..parameters import local
from .records import Records

MOST = 65_536
"""Elements of a weight that are compared."""
ROUNDING = 64
"""Times the precision of its dtype that a weight may be off which was computed back from an
average, as a schedule-free optimizer does. Our own number."""


class Exchanged:
    """Compares a few weights after a step, at each save, and when the training goes on.

    Nothing waits for the device but at a save.
    """

    def __init__(self, torch: ModuleType, records: Records) -> None:
        self.torch, self.records = torch, records
        self.weights: List[Foreign] = []
        self.after: List[Foreign] = []
        """Their values after the last step."""
        self.saved_others = False

    def stepped(self, optimizer: Foreign) -> None:
        """The first, the middle and the last weight of the optimizer are as after its step."""
        held = [p for group in optimizer.param_groups for p in group["params"]]
        self.weights = [held[0], held[len(held) // 2], held[-1]] if held else []
        self.after = [self._values(each).clone() for each in self.weights]
        self.saved_others = False

    def dtypes(self) -> str:
        """The dtype of a weight after the last step and now, where they differ; "" otherwise."""
        for weight, after in zip(self.weights, self.after):
            if weight.dtype != after.dtype:
                return f"{after.dtype}, now {weight.dtype}".replace("torch.", "")
        return ""

    def saving(self) -> bool:
        """Whether the weights are others than after the step."""
        others = not self._as_after()
        self.saved_others = self.saved_others or others
        return others

    def goes_on(self, step: int) -> None:
        """Record whether the next step begins from the weights after the last one again."""
        if self.saved_others and self._as_after():
            self.records.write("exchanged", s=step)
        self.saved_others = False

    def _values(self, weight: Foreign) -> Foreign:
        return local(weight).detach().reshape(-1)[:MOST]

    def _as_after(self) -> bool:
        now = [self._values(each) for each in self.weights]
        return all(map(self._near, now, self.after))

    def _near(self, now: Foreign, before: Foreign) -> bool:
        """Equal but for the rounding of a way there and back."""
        if not before.numel() or not before.is_floating_point():
            return bool(self.torch.equal(now.to(before.device), before))
        precision = self.torch.finfo(before.dtype).eps * ROUNDING
        off = (now.to(before.device) - before).abs().max()
        return bool(off <= precision * before.abs().max())

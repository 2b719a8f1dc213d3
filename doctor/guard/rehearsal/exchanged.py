"""Notices weights that are others while they are saved, as an average in the model is."""

from __future__ import annotations

from types import ModuleType
from typing import Dict, List

from ..foreign import Foreign
from ..parameters import local
from .records import Records
from .shadows import holds_average, shadows
from .state import in_memory

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
        self.before: List[Foreign] = []
        """Their values when the first evaluation since then began."""
        self.saved_others = False
        self.evaluations = 0

    def stepped(self, optimizer: Foreign) -> None:
        """The first, the middle and the last weight of the optimizer are as after its step."""
        held = [p for group in optimizer.param_groups for p in group["params"]]
        self.weights = [held[0], held[len(held) // 2], held[-1]] if held else []
        self.after = [self._values(each).clone() for each in self.weights]
        self.before = []
        self.saved_others = False

    def evaluates(self) -> None:
        """An evaluation begins: what it leaves in the model is compared with what is there now."""
        self.before = self.before or [self._values(each).clone() for each in self.weights]

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

    def goes_on(self, step: int, evaluations: int = 0) -> None:
        """Record whether the next step begins from the weights after the last one again, or, where
        there were more `evaluations` than before it, from those of an average that came into the
        model after they began."""
        evaluated, self.evaluations = evaluations > self.evaluations, evaluations
        if not self.saved_others and not evaluated:
            return
        if self.saved_others and self._as_after():
            self.records.write("exchanged", s=step)
        left = evaluated and self.before and not self._as(self.before)
        if left and (name := self._average()):
            self.records.write("averaged", s=step, name=name)
        self.saved_others = False

    def _average(self) -> str:
        """The average whose tensors are equal to all of the compared weights; "" for none."""
        held: Dict[str, List[Foreign]] = {}
        found = in_memory(self.torch)
        optimizers = [o for o in found["optimizer"] if "param_groups" in o.__dict__]
        for name, tensor in shadows(self.torch, found["holder"], optimizers):
            held.setdefault(name.partition(") ")[0] + ")", []).append(tensor)
        for module in found["module"]:
            if holds_average(type(module)):
                held.setdefault(f"({type(module).__name__})", []).extend(module.parameters())
        for name, tensors in held.items():
            if all(any(self._same(each, weight) for each in tensors) for weight in self.weights):
                return name
        return ""

    def _same(self, tensor: Foreign, weight: Foreign) -> bool:
        one, other = local(tensor), local(weight)
        return (
            one.shape == other.shape
            and one.data_ptr() != other.data_ptr()
            and bool(self.torch.equal(one.to(other.device, other.dtype), other))
        )

    def _values(self, weight: Foreign) -> Foreign:
        return local(weight).detach().reshape(-1)[:MOST]

    def _as_after(self) -> bool:
        return self._as(self.after)

    def _as(self, values: List[Foreign]) -> bool:
        now = [self._values(each) for each in self.weights]
        return all(map(self._near, now, values))

    def _near(self, now: Foreign, before: Foreign) -> bool:
        """Equal but for the rounding of a way there and back."""
        if not before.numel() or not before.is_floating_point():
            return bool(self.torch.equal(now.to(before.device), before))
        precision = self.torch.finfo(before.dtype).eps * ROUNDING
        off = (now.to(before.device) - before).abs().max()
        return bool(off <= precision * before.abs().max())

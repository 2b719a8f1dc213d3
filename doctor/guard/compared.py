"""What one optimizer updates: its parameters, compared with what they were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

from . import look_rules
from . import thresholds as limit
from .compensation import compensates
from .foreign import Foreign
from .names import names_of
from .overwritten import Overwritten
from .parameters import Parameters
from .rates import Rates, number
from .readings import Readings
from .records import Alarm, Look
from .zero_gradients import ZeroGradients

if TYPE_CHECKING:
    from weakref import ref

    from torch import Tensor
    from torch.optim import Optimizer

ADAPTIVE = frozenset(
    ("Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Muon", "NAdam", "RMSprop", "Rprop",
     "SparseAdam")
)  # fmt: skip
"""The optimizers of torch.optim whose first step does not shrink with the gradient. A name says
nothing of others: schedule-free RAdam updates nothing for its first steps, as torch's RAdam may."""


class Compared:
    """The parameters of one optimizer, neither of which it keeps alive."""

    def __init__(
        self, optimizer: ref[Optimizer], kind: type, index: int, readings: Readings[Foreign]
    ) -> None:
        self.torch, self.submit = readings.torch, readings.submit
        self.optimizer = optimizer
        self.index = index
        self.name = kind.__name__
        self.of_torch = kind.__module__.startswith("torch.optim.")
        self.adaptive = self.of_torch and self.name in ADAPTIVE

    def begin(self, groups: list[list[Tensor]]) -> None:
        """Compare with the parameters as they are now."""
        self.next_look = 1
        self.tiny_since = self.between = 0
        self.stays = self.moved_first = False
        self.ascends = any(group.get("maximize") for group in self.groups)
        self._names: dict[int, str] | None = None
        self.zero_gradients = ZeroGradients(self.torch)
        self.overwritten = Overwritten(self.torch)
        flat = [p for group in groups for p in group]
        self.unreached: set[int] = {index for index, p in enumerate(flat) if p.requires_grad}
        self.parameters = Parameters(self.torch, groups)
        self.parameters.classify(self.submit)

    @property
    def flat(self) -> list[Foreign]:
        """The parameters, in the order of the groups; [] when the optimizer is gone."""
        return [p for group in self.groups for p in group["params"]]

    @property
    def groups(self) -> list[Foreign]:
        """Its groups of parameters; [] when it is gone."""
        optimizer = self.optimizer()
        return [] if optimizer is None else list(optimizer.param_groups)

    @property
    def names(self) -> dict[int, str]:
        """Position -> name in the model, looked up when an alarm needs it."""
        if self._names is None:
            self._names = names_of(self.torch, self.flat)
        return self._names

    def compare_between(self, flat: list[Tensor]) -> None:
        """Whether what the last step changed is still changed before the next one."""

        def deliver(values: list[Foreign]) -> None:
            if not self.between:  # rounding loses most updates of 16 bits, until one is not lost
                moved = [p for p in self.parameters.tracked if p.moved and p.gradient]
                self.moved_first = sum(p.elements for p in moved) >= limit.ENOUGH_ELEMENTS
            self.between += 1
            self.stays |= any(distance is None or distance != 0.0 for distance in values)

        distances = [block.distance(flat) for block in self.parameters.blocks.values()]
        self.submit(distances, deliver)

    def look(
        self, optimizer: Optimizer, rates: Rates, step: int, effective: int, *, rising: bool
    ) -> Look:
        """A comparison after so many effective steps; its values are still to be read."""
        tiny = rates.previous <= look_rules.HALF_SMALLEST
        self.tiny_since = (self.tiny_since or effective) if tiny else 0
        initial = [number(group.get("initial_lr")) or 0.0 for group in optimizer.param_groups]
        return Look(
            self.index,
            step,
            effective,
            self.parameters.tracked,
            list(rates.highest),
            peak=max([*initial, *rates.highest]),
            rising=rising,
            adaptive=self.adaptive,
            compensated=self.compensated(optimizer),
            name=self.name,
            rate=rates.previous,
            tiny_since=self.tiny_since,
            undone=self.moved_first and self.between >= limit.UNDONE and not self.stays,
        )

    def judge_when_read(self, look: Look, deliver: Callable[[list[Alarm]], None]) -> None:
        """Read what a comparison needs, and deliver its alarms."""
        flat = self.flat
        if look.effective >= limit.MODES_FROM:
            self.overwritten.look(flat, look, self.submit)
        self.parameters.look(
            flat,
            self.submit,
            lambda: deliver([*look_rules.judge(look), *self.overwritten.taken()]),
        )
        if look.effective >= limit.MODES_FROM:
            self.zero_gradients.look(flat, self.parameters.tracked, self.submit)
            if self.zero_gradients.found:
                self.names  # noqa: B018 - at the end the model may be gone

    def never_reached(self, indices: set[int], step: int, effective: int) -> list[Alarm]:
        """The alarms for parameters that never had a gradient."""
        look = self.index, step, effective
        return look_rules.never_reached(sorted(indices), self.names, look, self.parameters.count)

    def untrained(self, step: int, effective: int) -> list[Alarm]:
        """The alarms for those that never had a gradient, or whose gradients were always 0."""
        if self.unreached and effective >= limit.NEVER_REACHED_AT_END:
            return self.never_reached(self.unreached, step, effective)
        tracked = self.parameters.tracked
        if all(each.gradient for each in tracked):
            return []
        alarm = self.zero_gradients.alarm(tracked, self.names, step, self.index)
        return [] if alarm is None else [alarm]

    def compensated(self, optimizer: Optimizer) -> bool:
        """Whether 16-bit weights keep what rounding takes away."""
        return self.parameters.half and compensates(optimizer, self.flat)

"""What is read in a process: numbers of its tensors, and the losses among them."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Generic

from .foreign import Foreign
from .records import Step
from .steady import Steady, Watch
from .values import Deliver, Scalar, Values

if TYPE_CHECKING:
    from torch import Tensor


class Readings(Generic[Watch]):
    """The numbers of tensors, and what the hooks share."""

    def __init__(self, torch: ModuleType) -> None:
        self.torch = torch
        self.values = Values(torch)
        self.submit = self.values.submit
        self.steady: Steady[Watch] = Steady()

    def fetch(self, losses: list[Foreign]) -> None:
        """Read the losses of a GPU."""
        self.values.fetch([loss for loss in losses if type(loss) is Scalar])

    def take_arrived(self, losses: list[Foreign]) -> None:
        """Put numbers in the place of losses that have arrived; those that were lost go."""
        if any([type(loss) is Scalar for loss in losses]):
            numbers = [self.values.number(loss) for loss in losses]
            for loss, value in zip(losses, numbers):
                if type(loss) is Scalar and value is not None:
                    self.steady.count_loss(value)
            losses[:] = [value for value in numbers if value is not None]

    def submit_step(self, step: Step, tensors: list[Tensor], deliver: Deliver) -> None:
        """Call `deliver` with the values of the tensors, once the losses of the step are there."""

        def arrived(values: list[Foreign]) -> None:
            self.take_arrived(step.losses)
            deliver(values)

        self.fetch(step.losses)
        self.values.submit(tensors, arrived)

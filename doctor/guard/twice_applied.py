"""Parameters that two optimizers hold, and whose gradients both apply."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import codes
from . import thresholds as limit
from .foreign import Foreign
from .records import WARN, Alarm

if TYPE_CHECKING:
    from .optimizer_watch import OptimizerWatch


class TwiceApplied:
    """A gradient is known by its tensor, that tensor's version, and the backward passes so far."""

    def __init__(self) -> None:
        self._applied: dict[int, tuple[int, tuple[int, int, int]]] = {}
        """Id of a parameter -> the optimizer that stepped with it last, and its gradient."""
        self._times: dict[tuple[int, int], int] = {}

    def step(self, watch: OptimizerWatch, backwards: int) -> Alarm | None:
        """Before a step of one of several optimizers."""
        if watch.effective >= limit.ACCUMULATED_UNTIL:
            return None
        shared: dict[int, int] = {}
        for parameter in watch.flat:
            if parameter.grad is not None:
                gradient = self._known_by(parameter.grad, backwards)
                other, before = self._applied.get(id(parameter), (watch.index, gradient))
                if other != watch.index and before == gradient:
                    shared[other] = shared.get(other, 0) + 1
                self._applied[id(parameter)] = watch.index, gradient
        for other, count in shared.items():
            key = other, watch.index
            self._times[key] = self._times.get(key, 0) + 1
            if self._times[key] == limit.TWICE_APPLIED:
                return self._alarm(watch, other, count)
        return None

    @staticmethod
    def _known_by(gradient: Foreign, backwards: int) -> tuple[int, int, int]:
        return id(gradient), gradient._version, backwards

    @staticmethod
    def _alarm(watch: OptimizerWatch, other: int, count: int) -> Alarm:
        text = (
            f"{count} of the {len(watch.flat)} parameters of optimizer {watch.index} are in "
            f"optimizer {other}, too, and both apply the same gradient, "
            f"{limit.TWICE_APPLIED} steps: these parameters are updated twice"
        )
        code = codes.OPTIMIZER_HAS_GRADIENTS
        return Alarm(code, WARN, watch.steps + 1, text, "shared", watch.index)

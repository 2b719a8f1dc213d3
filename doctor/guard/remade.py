"""An optimizer that is created anew again and again for the same parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

from . import codes
from . import thresholds as limit
from .foreign import Foreign
from .kept_states import KeptStates
from .records import WARN, Alarm

if TYPE_CHECKING:
    from .optimizer_watch import OptimizerWatch


class Remade:
    """What is known of the optimizers that are gone.

    One that is made anew for a copy of other weights, as a client's in federated learning, follows
    a load_state_dict(), which `states` counts.
    """

    def __init__(self, states: KeptStates) -> None:
        self._states = states
        self._loads = 0
        self._last: tuple[str, int, int] = "", 0, 0
        """Its class, parameters and steps."""
        self._first: Callable[[], Foreign] = lambda: None
        """Its first parameter, weakly: an id may be that of another one by now."""
        self._row = 1

    def ended(self, watch: OptimizerWatch) -> None:
        """An optimizer is gone."""
        self._last = watch.name, watch.parameters.count, watch.steps
        self._first = watch.parameters.first

    def begins(self, watch: OptimizerWatch) -> Alarm | None:
        """An optimizer is about to take its first step."""
        name, count, steps = self._last
        first = self._first()
        loads, self._loads = self._loads, self._states.loaded
        same = first is not None and first is watch.parameters.first()
        again = same and watch.name == name and watch.parameters.count == count and steps > 1
        self._row = self._row + 1 if again and loads == self._loads else 1
        if self._row != limit.REMADE or not keeps_state(watch):
            return None
        text = (
            f"{limit.REMADE} times in a row a new {name} was made for the same {count} "
            f"parameters, the last after {steps:,} steps: moments and counters begin at 0 again"
        )
        return Alarm(codes.STEPS_APPLIED, WARN, watch.steps + 1, text, "remade", watch.index)


def keeps_state(watch: OptimizerWatch) -> bool:
    """Whether the optimizer has more than the weights: moments, or a momentum."""
    optimizer = watch.optimizer()
    groups = [] if optimizer is None else optimizer.param_groups
    return watch.name != "SGD" or any(group.get("momentum") for group in groups)

"""The optimizers of this process and their watches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

from .judging import Judging
from .kept_states import KeptStates
from .optimizer_watch import OptimizerWatch
from .remade import Remade
from .rules import StepRules
from .spikes import Spikes

if TYPE_CHECKING:
    from torch.optim import Optimizer

MOST_OPTIMIZERS = 64
"""Optimizers that are watched; with one per parameter there can be hundreds."""


class Registry:
    """Finds the watch of an optimizer; `began` is called with each new one."""

    def __init__(self, judging: Judging, states: KeptStates, began: Callable[[], None]) -> None:
        self._judging, self.began = judging, began
        self.watches = judging.watches
        self.rules: dict[int, StepRules] = {}
        self._losses: dict[frozenset[int], Spikes] = {}
        """The series of losses by the ids of the parameters that they train."""
        self._remade = Remade(states)

    def known(self, optimizer: Optimizer) -> OptimizerWatch | None:
        """The watch of an optimizer; None for a new one."""
        watch = self.watches.get(id(optimizer))
        return watch if watch is not None and watch.optimizer() is optimizer else None

    def watch_of(self, optimizer: Optimizer) -> OptimizerWatch | None:
        """The watch of an optimizer, a new one for a new optimizer; None for one too many."""
        watch = self.known(optimizer)
        if watch is not None:
            return watch
        self._judging.judge_log()
        for key in [k for k, w in self.watches.items() if w.optimizer() is None]:
            self._remade.ended(self.watches.pop(key))
        if len(self.watches) < MOST_OPTIMIZERS:
            watch = self._new(optimizer)
            alarm = self._remade.begins(watch)
            if alarm is not None:
                self._judging.add(alarm, watch)
            self.watches[id(optimizer)] = watch
            self.rules[watch.index] = watch.rules
            self.began()
            self._judging.steady.read_all()
        self._judging.several = len(self.watches) > 1
        return watch

    def _new(self, optimizer: Optimizer) -> OptimizerWatch:
        parameters = frozenset(id(p) for group in optimizer.param_groups for p in group["params"])
        if len(self._losses) >= MOST_OPTIMIZERS:
            self._losses.clear()
        step_rules = StepRules(
            len(self.rules),
            self.rules,
            all_codes=self._judging.settings.all,
            losses=self._losses.setdefault(parameters, Spikes()),
        )
        judging, readings = self._judging, self._judging.readings
        with readings.torch.no_grad():
            return OptimizerWatch(optimizer, step_rules, judging.settings, readings, judging)

    def only(self) -> OptimizerWatch | None:
        """The optimizer, where there is one alone."""
        return next(iter(self.watches.values())) if len(self.watches) == 1 else None

    def learns(self) -> bool | None:
        """Whether a gradient was not 0; None before those of a step were read."""
        every = [watch.parameters for watch in self.watches.values()]
        if any(each.gradient for parameters in every for each in parameters.tracked):
            return True
        return False if any(each.gradients_read for each in every) else None

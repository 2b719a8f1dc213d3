"""The learning rate after a resume: what the optimizer loaded, what its scheduler made of it."""

from __future__ import annotations

import weakref
from typing import Callable, Iterator, List, Optional, Tuple

from . import thresholds as limit
from .foreign import Foreign
from .patches import Patches
from .rates import number
from .switch import Switch

FROM_THE_RATE = frozenset(
    ("ConstantLR", "CosineAnnealingLR", "ExponentialLR", "LinearLR", "MultiStepLR",
     "MultiplicativeLR", "PolynomialLR", "StepLR")
)  # fmt: skip
"""Schedules that compute each rate from the one before; others compute it from the first one."""
MOST = 16


class _Optimizer:
    """One whose state, or whose scheduler's, was loaded, until it steps.

    `loaded` and `last` are its largest rates when it was loaded, and after its scheduler's last
    call; `calls` those of step() since then, `began`: a scheduler was made since then. `expected`
    is the rate that its scheduler loaded.
    """

    def __init__(self, optimizer: Foreign) -> None:
        self.optimizer = weakref.ref(optimizer)
        self.loaded = self.last = 0.0
        self.calls = 0
        self.began = self.by_hand = self.restored = False
        self.name = ""
        self.expected: Optional[float] = None


class Resumed:
    """Optimizers that are about to step after something was loaded."""

    def __init__(self) -> None:
        self._all: dict[int, _Optimizer] = {}

    @property
    def waits(self) -> bool:
        """Whether there is any."""
        return bool(self._all)

    def optimizer_loaded(self, optimizer: Foreign) -> None:
        """Its load_state_dict() returned."""
        rate = _rate(optimizer)
        groups = optimizer.param_groups
        if rate and optimizer.state and any("initial_lr" in group for group in groups):
            one = self._of(optimizer)
            one.loaded = one.last = rate
            one.calls, one.began, one.by_hand = 0, False, False

    def scheduler_loaded(self, scheduler: Foreign) -> None:
        """Its load_state_dict() returned."""
        optimizer, rates = getattr(scheduler, "optimizer", None), scheduler.__dict__.get("_last_lr")
        known = [rate for each in rates or () if (rate := number(each)) is not None]
        if optimizer is None or not known:
            return
        one = self._of(optimizer)
        one.restored, one.last = True, one.last or _rate(optimizer) or 0.0
        if type(scheduler).__name__ in FROM_THE_RATE:
            one.name, one.expected = type(scheduler).__name__, max(known)

    def scheduler_begins(self, scheduler: Foreign) -> None:
        """Its step() is called, by its constructor, too."""
        one = self._all.get(id(getattr(scheduler, "optimizer", None)))
        if one is not None:
            one.by_hand |= one.last != _rate(scheduler.optimizer)

    def scheduler_stepped(self, scheduler: Foreign, first: bool, explicit: bool) -> None:
        """That returned; `first`: the constructor's call; `explicit`: it was given the epoch."""
        one = self._all.get(id(getattr(scheduler, "optimizer", None)))
        if one is not None:
            one.last, one.name = _rate(scheduler.optimizer) or 0.0, type(scheduler).__name__
            one.calls += not (first or explicit)
            one.began |= first

    def steps(self, optimizer: Foreign) -> Iterator[Tuple[str, str]]:
        """An optimizer steps: what is wrong with its rate."""
        one = self._all.pop(id(optimizer), None)
        if one is None or one.optimizer() is not optimizer:
            return
        rate = _rate(optimizer)
        if not rate or one.by_hand or rate != one.last:
            return
        if one.loaded:
            yield from _changed(one, rate)
        elif one.expected and _differ(rate, one.expected):
            yield (
                "not-restored",
                f"{one.name} loaded its state, with a learning rate of {one.expected:.3g}, and the "
                f"first step has {rate:.3g}: the optimizer's state was not loaded, and the "
                "schedule goes on from its rate",
            )

    def _of(self, optimizer: Foreign) -> _Optimizer:
        one = self._all.get(id(optimizer))
        if one is None or one.optimizer() is not optimizer:
            if len(self._all) >= MOST:
                self._all.clear()
            one = self._all[id(optimizer)] = _Optimizer(optimizer)
        return one


def _changed(one: _Optimizer, rate: float) -> Iterator[Tuple[str, str]]:
    if not _differ(rate, one.loaded) or one.restored:
        return
    start = f"the optimizer loaded a learning rate of {one.loaded:.3g}, and its first step has "
    if one.calls >= limit.REPLAYED:
        yield (
            "replayed",
            f"{start}{rate:.3g}: {one.name}.step() was called {one.calls:,} times before it, on "
            "the rate that was loaded",
        )
    elif one.began and not one.calls:
        yield (
            "restarted",
            f"{start}{rate:.3g}: a new {one.name} begins its schedule at 0, and its state was not "
            "loaded",
        )


def _differ(rate: float, other: float) -> bool:
    return not 1.0 / limit.RATE_RESUMED <= rate / other <= limit.RATE_RESUMED


def _rate(optimizer: Foreign) -> Optional[float]:
    """The largest one of the groups; None where one cannot be read."""
    rates = [number(group.get("lr")) for group in optimizer.param_groups]
    known: List[float] = [rate for rate in rates if rate is not None]
    return max(known) if known and len(known) == len(rates) else None


def install(switch: Switch, patches: Patches, resumed: Resumed) -> None:
    """Wrap load_state_dict() of optimizers, and of schedulers that have their own."""
    optim = switch.torch.optim
    loaded = _loads(switch, resumed.optimizer_loaded)
    patches.replace(optim.Optimizer, "load_state_dict", loaded)
    base = getattr(optim.lr_scheduler, "LRScheduler", None) or optim.lr_scheduler._LRScheduler
    loaded = _loads(switch, resumed.scheduler_loaded)
    for owner in {id(each): each for each in vars(optim.lr_scheduler).values()}.values():
        if isinstance(owner, type) and issubclass(owner, base):
            patches.replace(owner, "load_state_dict", loaded)


def _loads(
    switch: Switch, note: Callable[[Foreign], None]
) -> Callable[[Callable[..., Foreign]], Foreign]:
    def wrap(original: Callable[..., Foreign]) -> Foreign:
        def load_state_dict(self: Foreign, *args: Foreign, **kwargs: Foreign) -> Foreign:
            result = original(self, *args, **kwargs)
            switch.safely(note, self)
            return result

        return load_state_dict

    return wrap

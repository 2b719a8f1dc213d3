"""Steps on which no rule can say anything: what the hooks share, so that they cost little.

Between two steps of a training the guard's own memory has left the processor's caches, and each
call and each attribute costs ten times as much as in a loop of its own. Therefore the hooks decide
about such a step within their own frames, by the fields below, and only log it; the log is judged
by the same rules later, in one go. Everything else takes the complete way through `Watch` and
`OptimizerWatch`, which arm an optimizer where its training is steady.
"""

from __future__ import annotations

import time
import weakref
from math import isfinite
from typing import TYPE_CHECKING, Callable, Generic, List, Optional, Tuple, TypeVar

from . import thresholds as limit
from .clearing import Clearing
from .foreign import Foreign
from .values import Scalar

if TYPE_CHECKING:
    from torch.optim import Optimizer

Watch = TypeVar("Watch")
"""What watches an optimizer; nothing here looks into it."""
MOST_LOGGED, LOGGED_SECONDS = 32, 0.25
"""Steps that are judged in one go."""
FEW_LOGGED = 4
"""Steps whose time says nothing about the next ones."""


class Armed(Generic[Watch]):
    """One optimizer, and what a step of it must look like to be logged.

    `steps` counts its steps, `unapplied` those that were not applied or had a learning rate of 0.
    The steps before number `until` may be logged. `backwards` and `bad_losses` are those of the
    process at its last step. `present` are its gradients that are not None, `groups` its parameter
    groups and `rates` their learning rates; `few` are group and position of the gradients whose
    norm is taken where the loop takes none. `read_at` is the last step whose numbers were read,
    `next_read` the next one, `judged` the last one that was counted. `optimizer` is a weak
    reference, `key` the optimizer's id.
    """

    __slots__ = (
        "backwards", "bad_losses", "clearing", "few", "groups", "judged", "key", "next_read",
        "optimizer", "present", "rates", "read_at", "steps", "unapplied", "until", "watch",
    )  # fmt: skip

    def __init__(
        self, watch: Watch, optimizer: weakref.ref[Optimizer], key: int, clearing: Clearing
    ) -> None:
        self.watch = watch
        self.optimizer = optimizer
        self.key = key
        self.clearing = clearing
        self.steps = self.unapplied = self.until = self.backwards = self.bad_losses = 0
        self.present = self.groups = self.read_at = self.next_read = self.judged = 0
        self.rates: List[Foreign] = []
        self.few: List[Tuple[int, int]] = []


Logged = Tuple[Armed[Watch], int, List[Foreign], Foreign, List[Foreign], int, float]
"""Optimizer, number of its step, losses, gradient norm (None: not read), learning rates, backward
passes since the step before, monotonic seconds. Losses and norm of a GPU are `Scalar`s."""


class Steady(Generic[Watch]):
    """What the hooks of a process share.

    `armed` are the optimizers whose next step may be logged, by their id. `depth` is 1 within a
    backward pass. `stepping` is a weak reference to the optimizer whose step() is running, and
    `running` its id if the step was logged; `closure`: it got one. `scaled`: a loss scaler is in
    use. `backwards` counts backward passes, `stepped_at` those before the last step of any
    optimizer. `uncleared` are the optimizers of which a step, but no
    cleared gradient has been observed since. `norm` is that of the gradients that the loop took, of
    `norm_count` tensors. `log` are steps that were not judged yet; `full`: it is time to. `skips`
    is the only optimizer, if its next step is not read; one step of `every` is. `stepped` is called
    after each step, unless it is None. `unread` steps were not read, `unread_from` was the first;
    `most_every` is the largest `every` so far, chosen because a step took `step_seconds`.
    `groups_made` are the learning rates with which the groups of optimizers were made.
    """

    __slots__ = (
        "armed", "backwards", "bad_losses", "clock", "closure", "depth", "every", "full",
        "groups_made", "last_losses", "log", "losses", "losses_read", "most_every", "norm",
        "norm_count", "running", "scaled", "skips", "step_seconds", "stepped", "stepped_at",
        "stepping", "uncleared", "unread", "unread_from",
    )  # fmt: skip

    def __init__(self) -> None:
        self.armed: dict[int, Armed[Watch]] = {}
        self.groups_made: weakref.WeakKeyDictionary[Foreign, List[Optional[float]]] = (
            weakref.WeakKeyDictionary()
        )
        self.depth = self.running = 0
        self.closure = self.scaled = False
        self.stepping: Foreign = None
        self.backwards = self.stepped_at = 0
        self.uncleared: list[Clearing] = []
        self.losses: list[Foreign] = []
        self.last_losses: list[Foreign] = []
        self.losses_read = self.bad_losses = 0
        self.norm: Foreign = None
        self.norm_count = -1
        self.log: list[Logged[Watch]] = []
        self.full = False
        self.skips: Armed[Watch] | None = None
        self.every = 1
        self.clock = time.monotonic
        self.stepped: Callable[[Watch], None] | None = None
        self.unread = self.unread_from = 0
        self.most_every, self.step_seconds = 1, 0.0

    def count_loss(self, value: float) -> None:
        """A loss was read."""
        self.losses_read += 1
        self.bad_losses += not isfinite(value)

    def take_losses(self) -> list[Foreign]:
        """The losses since the last step; a second optimizer gets the same again."""
        if self.losses:
            self.last_losses, self.losses = self.losses, []
        return self.last_losses

    def take_norm(self, count: int) -> Foreign:
        """The norm that the loop took, where it is that of this many gradients."""
        norm, self.norm = self.norm, None
        return norm if self.norm_count == count else None

    def step_raised(self) -> None:
        """The step() that was running never ended: if it was logged, it is not any more."""
        armed = self.armed.get(self.running)
        if armed is not None:
            if self.log and self.log[-1][:2] == (armed, armed.steps):
                self.log.pop()
            armed.steps -= 1
        self.stepping, self.running = None, 0

    def arm(self, armed: Armed[Watch]) -> None:
        """The next steps of an optimizer may be logged; the first of them is read."""
        self.armed[armed.key] = armed
        self.skips = None

    def disarm(self, key: Optional[int] = None) -> None:
        """The next step of the optimizer with this id, or of all, takes the complete way."""
        self.skips = None
        if key is None:
            self.armed.clear()
        else:
            self.armed.pop(key, None)

    def count_unread(self, number: int, count: int) -> None:
        """The numbers of so many steps, from this one on, were not read."""
        self.unread += count
        self.unread_from = self.unread_from or number

    def choose_every(self, log: list[Logged[Watch]], clips: bool) -> None:
        """Of how many steps one is read from now on, by the time that the logged ones took.

        `clips`: the loop takes the norm of the gradients itself.
        """
        times = [(entry[1], entry[-1]) for entry in log]
        later = times[1:]
        seconds = sorted((t - s) / (n - m) for (m, s), (n, t) in zip(times, later) if n > m)
        if not seconds:
            return
        median = seconds[len(seconds) // 2]
        left = limit.SHARE * median - limit.HOOKS_SECONDS
        costs = limit.READ_SECONDS_CLIPPED if clips else limit.READ_SECONDS
        device = "gpu" if any(type(entry[3]) is Scalar for entry in log) else "cpu"
        cost = costs[device]
        if median >= limit.READ_ALL_SECONDS[device]:
            self.every = 1
        else:
            cheap = (n for n in limit.READ_EVERY if cost <= n * left)
            self.every = next(cheap, limit.READ_EVERY[-1])
        if self.every > self.most_every:
            self.most_every, self.step_seconds = self.every, median

    def read_all(self) -> None:
        """From now on the numbers of every step are read."""
        self.every, self.skips = 1, None

"""Two networks that train against each other: one that has won leaves the other no gradient."""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import Deque, List, Optional, Set

from . import codes
from . import thresholds as limit
from .context import Context
from .foreign import Foreign
from .loss_graphs import kind, nearest, reached
from .records import WARN, Alarm

DECIDES = frozenset(
    ("BinaryCrossEntropyBackward0", "BinaryCrossEntropyWithLogitsBackward0", "ClampBackward1",
     "LogBackward0", "LogSigmoidBackward0", "NllLossBackward0", "ReluBackward0",
     "SoftplusBackward0")
)  # fmt: skip
"""Near the loss of a network that tells two kinds apart; a critic of values has a distance."""


class _Side:
    """What is known of one optimizer: which optimizers its losses reach, its losses and norms."""

    def __init__(self) -> None:
        self.reached: Set[int] = set()
        self.decides = True
        self.first_losses: List[float] = []
        self.first_norms: List[float] = []
        self.losses: Deque[float] = deque(maxlen=limit.LEVEL_STEPS)
        self.norms: Deque[float] = deque(maxlen=limit.LEVEL_STEPS)
        self.steps = 0

    def add(self, loss: Optional[float], norm: Optional[float]) -> None:
        self.steps += 1
        for value, first, last in (
            (loss, self.first_losses, self.losses),
            (norm, self.first_norms, self.norms),
        ):
            if value is not None:
                last.append(value)
                if len(first) < limit.FIRST_OF_SIDES:
                    first.append(value)

    def falls(self) -> bool:
        """Whether the losses end far below where they began, near 0."""
        if not self.losses or not self.first_losses:
            return False
        first = median(self.first_losses)
        return first > 0.0 and abs(median(self.losses)) < limit.WON * min(1.0, first)


class Adversaries:
    """Follows two optimizers: the losses of one reach its own parameters alone, those of the other
    also the first one's, which stay as they are in its steps."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._sides: dict[int, _Side] = {}
        self._pending: tuple[Set[int], bool] | None = None
        self._steps: dict[int, int] = {}
        """Of each optimizer, at the last pass."""
        self._passes = 0
        self._told = False

    def passes(self, node: Foreign) -> None:
        """A backward pass begins from a loss with this node."""
        watches = list(self._context.watches())
        if self._told or len(watches) != limit.SIDES or self._passes >= limit.PASSES_OF_SIDES:
            return
        self._passes += 1
        self._assign(watches)
        owners = {id(p): each.index for each in watches for p in each.flat}
        found = reached(node, owners)
        decides = any(kind(each) in DECIDES for each in nearest(node))
        if found is not None:
            before = self._pending[0] if self._pending is not None else set()
            self._pending = before.union(found), decides

    def _assign(self, watches: list[Foreign]) -> None:
        """What the passes before reached belongs to the optimizers that have stepped since."""
        stepped = stepped_since(watches, self._steps)
        if self._pending is None or not stepped:
            return
        reached, decides = self._pending
        for side in [self._sides.setdefault(index, _Side()) for index in stepped]:
            side.reached |= reached
            side.decides &= decides
        self._pending = None

    def judged(self, index: int, loss: Optional[float], norm: Optional[float]) -> None:
        """Loss and gradient norm of a step were read."""
        side = self._sides.get(index)
        if side is None or self._told:
            return
        side.add(loss, norm)
        if side.steps % limit.LEVEL_STEPS == 0 and len(self._sides) == limit.SIDES:
            self._judge(index)

    def _judge(self, index: int) -> None:
        """Whether the other side has won against this one."""
        other, winner = next(pair for pair in self._sides.items() if pair[0] != index)
        loser = self._sides[index]
        against = winner.reached == {other} and loser.reached == {index, other} and winner.decides
        if not against or min(winner.steps, loser.steps) < limit.STEPS_OF_SIDES:
            return
        if not (winner.losses and winner.first_losses and loser.norms and loser.first_norms):
            return
        loss, first = median(winner.losses), median(winner.first_losses)
        norm, first_norm = median(loser.norms), median(loser.first_norms)
        won = abs(loss) < limit.WON * min(1.0, abs(first))
        if won and norm < limit.STARVED * first_norm:
            self._told = True
            agree = loser.falls()
            names = {each.index: each.name for each in self._context.watches()}
            text = (
                f"the loss of one network has fallen from {first:.3g} to {loss:.3g}, and the "
                f"gradient norm of the other, whose loss it decides, from {first_norm:.3g} to "
                f"{norm:.3g} (medians of {limit.LEVEL_STEPS} steps, {names.get(index)}): "
            )
            text += (
                "the loss of the other has fallen, too, so the two want the same"
                if agree
                else "the one has won, and the other learns nothing"
            )
            cause = "agree" if agree else "adversary"
            alarm = Alarm(codes.GRADIENTS_NOT_ZERO, WARN, loser.steps, text, cause, index)
            self._context.add(alarm, None)


def stepped_since(watches: List[Foreign], before: dict[int, int]) -> List[int]:
    """The optimizers that have stepped since `before`, their steps by index, which is updated."""
    stepped = [each.index for each in watches if each.armed.steps != before.get(each.index)]
    before.update({each.index: each.armed.steps for each in watches})
    return stepped

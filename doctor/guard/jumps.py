"""Jumps of the loss that the batches explain: longer sequences, another number of samples."""

from __future__ import annotations

from typing import Callable, List, Tuple

from . import loss_graphs
from . import thresholds as limit
from .foreign import Foreign
from .records import NOTE, Alarm

WITH_NEW_DATA = "losses of data that the model collects jump with the next ones"


class Jumps:
    """The elements that losses were computed from, and alarms that wait for the next such number.

    `look` asks for the graph of the next loss.
    """

    def __init__(self, add: Callable[[Alarm, Foreign], None]) -> None:
        self._add = add
        self.look: Callable[[], None] = lambda: None
        self.expected = False
        """Whether data that the model collects are used several times and then replaced, as PPO
        does: the loss falls on them and jumps with the next."""
        self._least = self._most = 0
        self._changed_at = -limit.SIZE_RECENT
        self._waiting: List[Tuple[Alarm, Foreign]] = []

    def passes(self, node: Foreign, number: int) -> None:
        """The backward pass of this number begins at a node."""
        size = loss_graphs.size(node)
        if size and not self._least <= size <= self._most:
            self._least, self._most = min(self._least or size, size), max(self._most, size)
            self._changed_at = number
        waiting, self._waiting = self._waiting, []
        if number - self._changed_at >= limit.SIZE_RECENT:
            for alarm, watch in waiting:
                self._add(alarm, watch)

    def wait(self, alarm: Alarm, watch: Foreign) -> None:
        """The loss has jumped."""
        if self.expected:
            alarm.status, alarm.text = NOTE, f"{alarm.text}; {WITH_NEW_DATA}"
        self._waiting.append((alarm, watch))
        self.look()

    def close(self) -> None:
        """No pass follows: what waits is an alarm."""
        for alarm, watch in self._waiting:
            self._add(alarm, watch)

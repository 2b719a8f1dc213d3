"""What rank 0 has the nodes do once all have reported: each order with a deadline of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from doctor.facts.fleet import Clock
from doctor.fleet.meeting import PINGS, RankZero
from doctor.fleet.messages import Order, Reply, Tick
from doctor.fleet.store import StoreError

T = TypeVar("T")

CLOCK_SECONDS = 5.0
"""For the exchanges with one node, which take a few milliseconds each."""
WAIT_SECONDS = 2.0
NO_ANSWER = Reply(failed="no answer in time")


class Orders:
    """The orders of one meeting, numbered for each node."""

    def __init__(self, rank_zero: RankZero, deadline: float) -> None:
        """`deadline`: of the monotonic clock, for all orders."""
        self._rank_zero, self.deadline = rank_zero, deadline
        self._given: dict[int, int] = {}

    @property
    def ranks(self) -> tuple[int, ...]:
        """Those that can be given orders: they have reported."""
        return tuple(sorted(self._rank_zero.gathered.results))

    def ask(
        self,
        orders: Mapping[int, Order],
        seconds: float,
        is_enough: Callable[[], bool] = lambda: False,
    ) -> dict[int, Reply]:
        """Give an order to each of these nodes; the replies, within so many seconds.

        `is_enough`: whether to wait for no further one.
        """
        deadline = min(self.deadline, time.monotonic() + seconds)
        numbers = {rank: self._given.get(rank, 0) for rank in orders}
        replies: dict[int, Reply] = {}
        try:
            self._rank_zero.send(
                {(f"order{numbers[rank]}", rank): order for rank, order in orders.items()}, deadline
            )
            while len(replies) < len(orders) and time.monotonic() < deadline:
                if is_enough():
                    break
                open_rounds = {
                    rank: f"reply{numbers[rank]}" for rank in orders if rank not in replies
                }
                wait = min(WAIT_SECONDS, deadline - time.monotonic())
                replies |= self._rank_zero.receive(open_rounds, Reply, wait, deadline + 0.5)
        except StoreError:
            pass
        self._given |= {rank: number + 1 for rank, number in numbers.items()}
        return {rank: replies.get(rank, NO_ANSWER) for rank in orders}

    def clocks(self, ranks: Iterable[int] | None = None) -> dict[int, Clock]:
        """The clocks of the nodes, or of these, against this one: one node after the other."""
        found: dict[int, Clock] = {}
        for rank in self.ranks if ranks is None else ranks:
            if time.monotonic() > self.deadline:
                break
            clock = self._clock(rank)
            if clock is not None:
                found[rank] = clock
        return found

    def _clock(self, rank: int) -> Clock | None:
        deadline = min(self.deadline, time.monotonic() + CLOCK_SECONDS)
        number = self._given.get(rank, 0)
        self._given[rank] = number + 1
        try:
            self._rank_zero.send({(f"order{number}", rank): Order(do="clock")}, deadline)
            for exchange in range(PINGS):
                if self._pong(rank, f"{number}-{exchange}", deadline):
                    break
            reply = self._receive(rank, f"reply{number}", Reply, deadline)
        except StoreError:
            return None
        return None if reply is None else opened(reply, Clock | None)

    def _pong(self, rank: int, exchange: str, deadline: float) -> bool:
        """Answer one exchange; whether it is the last."""
        ping = self._receive(rank, f"ping{exchange}", Tick, deadline)
        if ping is None:
            return True
        self._rank_zero.send({(f"pong{exchange}", rank): Tick(at=time.time())}, deadline)
        return ping.last

    def _receive(self, rank: int, round: str, kind: type[T], deadline: float) -> T | None:
        """A message of one node, None if it did not come."""
        while (wait := deadline - time.monotonic()) > 0:
            wait = min(WAIT_SECONDS, wait)
            found = self._rank_zero.receive({rank: round}, kind, wait, deadline + 0.5)
            if rank in found:
                return found[rank]
        return None


def opened(reply: Reply, kind: object) -> Any:
    """The content of a reply, None if it is not of that kind."""
    if reply.failed:
        return None
    try:
        return msgspec.json.decode(reply.content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def order(do: Any, content: object) -> Order:
    return Order(do=do, content=msgspec.Raw(msgspec.json.encode(content)))


def reply(content: object) -> Reply:
    return Reply(content=msgspec.Raw(msgspec.json.encode(content)))

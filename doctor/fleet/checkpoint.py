"""The values of one checkpoint, read by several nodes: each a share of the bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from doctor._util.records import Unknown
from doctor._util.units import gb, shown
from doctor.checkpoint.analysis.value_shares import join_values
from doctor.checkpoint.records import Values
from doctor.collect.background import background
from doctor.fleet.messages import Reply
from doctor.fleet.orders import Orders, opened, order, reply

Read = Callable[[tuple[int, int]], Values | Unknown]
"""Reads a share: which of how many."""
PATIENCE = 30.0
"""Seconds beyond twice what node 0 took for a share of the same size: then it is dealt again."""


class Identity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The files at a path, by name, size, time and samples of their content."""

    files: int
    bytes: int
    digest: str
    place: str
    """Differs where a node has copies of its own."""


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A share of the values, of the files that node 0 sees."""

    index: int
    count: int
    digest: str


def read_part(content: msgspec.Raw, own: Identity, read: Read) -> Reply:
    """Read a share of this node's own files; refused if they are not those of node 0."""
    part = msgspec.json.decode(content, type=Part)
    if part.digest != own.digest or not 0 <= part.index < part.count:
        return Reply(failed="it sees other files than node 0")
    values = read((part.index, part.count))
    return Reply(failed=values.reason[:500]) if isinstance(values, Unknown) else reply(values)


def read_all(
    orders: Orders, labels: Mapping[int, str], readers: Sequence[int], own: Identity, read: Read
) -> Values | Unknown:
    """The values by all readers, of which node 0 is one. What one of them loses is dealt again."""
    count = len(readers)
    dealing = _Dealing(orders, own, read, count)
    found = dealing.deal(dict(zip(readers, range(count), strict=True)))
    ready = [rank for rank, index in zip(readers, range(count), strict=True) if index in found]
    lost = [index for index in range(count) if index not in found]
    while lost and ready:
        again = dict(zip(ready, lost, strict=False))
        found |= (new := dealing.deal(again))
        ready = [rank for rank, index in again.items() if index in new]
        lost = [index for index in lost if index not in found]
    if not lost:
        return join_values([found[index] for index in range(count)])
    silent = [labels[readers[index]] for index in lost]
    why = "; ".join(f"{labels[rank]}: {text}" for rank, text in sorted(dealing.failures.items()))
    size = gb(own.bytes * len(lost) / count)
    return Unknown(reason=shown(f"{size} dealt to {', '.join(silent)} were not read; {why}", 500))


class _Dealing:
    """Shares that are dealt, several at once."""

    def __init__(self, orders: Orders, own: Identity, read: Read, count: int) -> None:
        self._orders, self._own, self._read, self._count = orders, own, read, count
        self._enough = float("inf")
        self.failures: dict[int, str] = {}
        """Rank -> why it did not read its share."""

    def deal(self, shares: Mapping[int, int]) -> dict[int, Values]:
        """Have each rank read a share; the values of those that did, by share."""
        began, self._enough = time.monotonic(), float("inf")
        mine = background(lambda: self._read_own(shares.get(0), began))
        parts = {
            rank: Part(index=index, count=self._count, digest=self._own.digest)
            for rank, index in shares.items()
            if rank
        }
        remaining = self._orders.deadline - began
        replies = self._orders.ask(
            {rank: order("share", part) for rank, part in parts.items()},
            remaining,
            lambda: time.monotonic() > self._enough,
        )
        found = {}
        for rank, each in replies.items():
            values = opened(each, Values)
            if isinstance(values, Values):
                found[shares[rank]] = values
            else:
                self.failures[rank] = each.failed or "its answer is malformed"
        try:
            own = mine.result(max(0.0, self._orders.deadline - time.monotonic()))
        except TimeoutError:
            own = Unknown(reason="its share was not read before the deadline")
        if isinstance(own, Values):
            found[shares[0]] = own
        elif own is not None:
            self.failures[0] = own.reason
        return found

    def _read_own(self, index: int | None, began: float) -> Values | Unknown | None:
        """Node 0's share, which tells how long one of this size takes."""
        if index is None:
            return None
        values = self._read((index, self._count))
        took = time.monotonic() - began
        self._enough = began + 2 * took + PATIENCE
        return values

"""A node other than rank 0: it joins, delivers its result, carries out orders, and leaves last."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import msgspec

from doctor import __version__
from doctor.facts.fleet import Clock
from doctor.fleet.meeting import (
    GRACE_SECONDS,
    LONGEST_PAUSE,
    PAUSE_SECONDS,
    PINGS,
    TO_ALL,
    WAIT_SECONDS,
    key_of,
)
from doctor.fleet.member import Member
from doctor.fleet.messages import (
    Echo,
    Hello,
    MessageError,
    Opening,
    Order,
    Printed,
    Reply,
    Result,
    Round,
    Seal,
    Tick,
    new_nonce,
)
from doctor.fleet.store import Client, StoreError

PING_SECONDS = 1.0
"""After how long no further exchange of clocks begins."""
Duty = Callable[[msgspec.Raw], Reply]
"""Carries out the content of an order."""


@dataclass(slots=True)
class Contact:
    """How far this node came with rank 0."""

    welcomed: bool = False
    delivered: bool = False
    verdict: str = ""
    """Of the fleet, once rank 0 has printed it."""
    problem: str = ""
    """The last thing that went wrong, "" after it went right."""
    refusal: bool = False
    """The problem is a message of rank 0 that did not verify."""

    def note(self, error: StoreError | MessageError) -> None:
        """Keep what went wrong; a lost connection says less than a message that was refused."""
        if isinstance(error, MessageError) or not self.refusal:
            self.problem, self.refusal = str(error), isinstance(error, MessageError)


class Other:
    """A node other than rank 0, in a thread of its own."""

    def __init__(
        self,
        member: Member,
        name: str,
        key: bytes,
        python: str,
        deadline: float,
        duties: Mapping[str, Duty] | None = None,
    ) -> None:
        """`name`: of this node, as a report prints it. `duties`: what orders it carries out."""
        self._duties = duties or {}
        self._orders = 0
        self.contact = Contact()
        self._member, self._name = member, name
        self._without_grace = deadline
        self._first = Seal(key, member.job, member.restart)
        self._seal: Seal | None = None
        self._nonce = new_nonce()
        self._result: Result | None = None
        self._changed = threading.Event()
        self._stopped = False
        loopback = member.named or member.joins_agent
        self._client = Client(python, member.address, member.port, loopback=loopback)

    @property
    def _deadline(self) -> float:
        """A node that rank 0 knows stays a moment longer, to read that the report is printed."""
        return self._without_grace + (GRACE_SECONDS if self.contact.welcomed else 0.0)

    def deliver(self, result: Result) -> None:
        """Hand over what is to be sent; from another thread."""
        self._result = result
        self._changed.set()

    def stop(self) -> None:
        """End the conversation, from another thread."""
        self._stopped = True
        self._changed.set()

    def talk(self) -> Contact:
        """The whole conversation: until rank 0 has printed or the deadline has passed."""
        pause = PAUSE_SECONDS
        try:
            while not self._stopped and time.monotonic() < self._deadline:
                try:
                    if self._step():
                        break
                    pause = PAUSE_SECONDS
                except (StoreError, MessageError) as error:
                    self.contact.note(error)
                    self._pause(pause)
                    pause = min(2 * pause, LONGEST_PAUSE)
            return self.contact
        finally:
            self._client.end()

    def _pause(self, seconds: float) -> None:
        self._changed.wait(max(0.0, min(seconds, self._deadline - time.monotonic())))
        self._changed.clear()

    def _step(self) -> bool:
        """The next thing that is not answered yet; whether the conversation is over."""
        contact = self.contact
        self._client.connect(self._deadline)
        if not contact.welcomed:
            self._join()
        elif contact.delivered:
            return self._follow()
        elif self._result is None:
            self._pause(WAIT_SECONDS)
        else:
            contact.delivered = self._send("result", self._result, "received")
        return False

    def _join(self) -> None:
        """Read the opening and answer it; with a key of its own also one that does not verify."""
        try:
            self._read_opening()
        except MessageError as error:
            self._send("hello", self._hello(), "welcome")  # for rank 0 to name this node
            raise MessageError(f"the opening of rank 0: {error}") from None
        if self._seal:
            self.contact.welcomed = self._send("hello", self._hello(), "welcome")
            self.contact.problem = "" if self.contact.welcomed else "rank 0 did not answer"
            self.contact.refusal = False

    def _read_opening(self) -> None:
        data = self._read("opening", "all")
        if data is None:
            self.contact.problem = "rank 0 has not begun"
            return
        opening = self._first.open(data, "opening", 0, TO_ALL, Opening)
        if opening.nodes != self._member.nodes:
            raise MessageError(f"it is of {opening.nodes} nodes, this node's {self._member.nodes}")
        self._seal = replace(self._first, nonce=opening.nonce)

    def _hello(self) -> Hello:
        found = self._client.connected
        hello = Hello(nonce=self._nonce, node=self._name, version=__version__)
        if found is None:
            return hello
        return msgspec.structs.replace(
            hello,
            source=found.source,
            interface=found.interface,
            resolving=found.resolving,
            connecting=found.connecting,
        )

    def _send(self, round: Round, message: msgspec.Struct, answered_by: Round) -> bool:
        """Store a message; whether rank 0 acknowledged it within a moment."""
        rank, seal = self._member.rank, self._seal or self._first
        data = seal.close(round, rank, 0, message)
        self._client.set({key_of(self._member, round, rank, 0): data}, self._deadline)
        answer = self._read(answered_by, rank)
        if answer is None:
            return False
        return seal.open(answer, answered_by, 0, rank, Echo).nonce == self._nonce

    def _follow(self) -> bool:
        """Carry out the next order; whether rank 0 has printed, and was told that it was read."""
        assert self._seal
        rank, member, number = self._member.rank, self._member, self._orders
        order_key = key_of(member, f"order{number}", 0, rank)
        printed_key = key_of(member, "printed", 0, "all")
        values, _ = self._client.read([order_key, printed_key], WAIT_SECONDS, self._deadline)
        if printed_key in values:
            data = values[printed_key]
            self.contact.verdict = self._seal.open(data, "printed", 0, TO_ALL, Printed).verdict
            self._store("leaving", Echo(nonce=self._nonce))
            return True
        if order_key in values:
            order = self._seal.open(values[order_key], f"order{number}", 0, rank, Order)
            self._store(f"reply{number}", self._reply(order))
            self._orders += 1
        return False

    def _reply(self, order: Order) -> Reply:
        if order.do == "clock":
            return Reply(content=msgspec.Raw(msgspec.json.encode(self._clock())))
        if order.do not in self._duties:
            return Reply(failed="this doctor does not know the order")
        try:
            return self._duties[order.do](order.content)
        except Exception as error:  # the node stays for the next order
            return Reply(failed=f"{type(error).__name__}: {error}"[:500])

    def _clock(self) -> Clock | None:
        """This clock against that of rank 0, by the quickest of several exchanges."""
        found: list[Clock] = []
        enough = time.monotonic() + PING_SECONDS
        for number in range(PINGS):
            exchange = f"{self._orders}-{number}"
            is_last = number == PINGS - 1 or time.monotonic() > enough
            sent = time.time()
            self._store(f"ping{exchange}", Tick(at=sent, last=is_last))
            data = self._read(f"pong{exchange}", self._member.rank)
            if data is None or self._seal is None:  # rank 0 has gone on
                break
            received = time.time()
            pong = self._seal.open(data, f"pong{exchange}", 0, self._member.rank, Tick)
            offset, error = (sent + received) / 2 - pong.at, abs(received - sent) / 2
            found.append(Clock(offset=offset, error=error))
            if is_last:
                break
        return min(found, key=lambda each: each.error, default=None)

    def _store(self, round: Round, message: msgspec.Struct) -> None:
        """Store a message that is not acknowledged."""
        assert self._seal
        rank = self._member.rank
        data = self._seal.close(round, rank, 0, message)
        self._client.set({key_of(self._member, round, rank, 0): data}, self._deadline)

    def _read(self, round: Round, receiver: int | str) -> bytes | None:
        """A message of rank 0, None if there is none after a moment."""
        key = key_of(self._member, round, 0, receiver)
        values, refused = self._client.read([key], WAIT_SECONDS, self._deadline)
        if key in refused:
            raise MessageError(refused[key])
        return values.get(key)

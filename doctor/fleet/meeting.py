"""What rank 0 and the others say to each other, each call and the whole within a deadline.

Each node joins (`hello`, answered by `welcome`), later sends what it examined (`result`, answered
by `received`) and stays until rank 0 has `printed`: a launcher may kill all others when the first
task ends. What is not answered is sent again after the connection was lost.
"""

from __future__ import annotations

import ipaddress
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import msgspec

from doctor import __version__
from doctor.collect.child_messages import Answer
from doctor.facts.fleet import SUMMARY_BYTES, Clock
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
from doctor.fleet.store import Client, StoreError, StoreProcess, start_server

WAIT_SECONDS = 2.0
"""For one answer, before what was said is said again."""
PAUSE_SECONDS, LONGEST_PAUSE = 0.5, 8.0
"""After an attempt that brought nothing, doubled each time."""
GRACE_SECONDS = 0.6
"""How long the others stay beyond the deadline, to read that the report is printed."""
LEAVE_SECONDS, LONGEST_LEAVE = 0.5, 5.0
"""For them to answer, before their store ends; the longer time if it is before the deadline."""
PINGS, PING_SECONDS = 5, 1.0
"""Exchanges of clocks with one node, and after how long no further one begins."""
Duty = Callable[[msgspec.Raw], Reply]
"""Carries out the content of an order."""
T = TypeVar("T")


def key_of(member: Member, round: Round, sender: int, receiver: int | str) -> str:
    """Where a message is stored; `receiver` "all" for one that everybody reads."""
    return f"doctor/{member.job}/{member.restart}/{round}/{sender}/{receiver}"


TO_ALL = -1


@dataclass(slots=True)
class Gathered:
    """What rank 0 has received until now."""

    hellos: dict[int, Hello] = field(default_factory=dict)
    results: dict[int, Result] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    """Rank -> why its last message was not accepted."""
    failed: str = ""
    """Why the store could not be used, at first or at last."""
    files: int | None = None
    """The store's limit on open files; None where another process serves it."""


class RankZero:
    """The node that gathers. One thread at a time may call its methods."""

    def __init__(self, member: Member, key: bytes, python: str, deadline: float) -> None:
        """`deadline`: of the monotonic clock, for everything but `finish`."""
        self.gathered = Gathered()
        self._member, self._deadline = member, deadline
        nonce = new_nonce()
        self._opening = Opening(nonce=nonce, nodes=member.nodes)
        self._first = Seal(key, member.job, member.restart)
        self._seal = replace(self._first, nonce=nonce)
        self._python = python
        self._server: StoreProcess | None = None
        self._client: Client | None = None
        self._too_large: set[str] = set()
        self._stop = threading.Event()

    def gather(self) -> Gathered:
        """Serve the store and collect results until all are there or the deadline has passed."""
        try:
            self._serve()
        except StoreError as error:
            self.gathered.failed = str(error)
            return self.gathered
        pause = PAUSE_SECONDS
        while not self._is_complete() and time.monotonic() < self._deadline:
            try:
                pause = 0.0 if self._round() else PAUSE_SECONDS
                self.gathered.failed = ""
            except StoreError as error:
                self.gathered.failed = str(error)
                pause = min(2 * pause or PAUSE_SECONDS, LONGEST_PAUSE)
            remaining = self._deadline - time.monotonic()
            if self._stop.wait(max(0.0, min(pause, remaining))):
                break
        return self.gathered

    def stop(self) -> None:
        """End `gather` early, from another thread."""
        self._stop.set()

    def _serve(self) -> None:
        """Start the store, unless torchrun's agent has one, and the client of this node."""
        member = self._member
        port = member.port
        if not member.joins_agent:
            address = listening_address(member)
            self._server = start_server(self._python, address, port, member.nodes)
            self._client = self._start_client(address or "127.0.0.1", port)
            answer = self._server.ready(self._deadline)
            self.gathered.files = _number(answer, "files")
        else:
            self._client = self._start_client(member.address, port)

    def _start_client(self, host: str, port: int) -> Client:
        return Client(self._python, host, port, loopback=True)

    def _is_complete(self) -> bool:
        return len(self.gathered.results) >= self._member.nodes - 1

    def _round(self) -> bool:
        """Read what is new and acknowledge it; whether there was anything."""
        assert self._client
        got, deadline = self.gathered, self._deadline + GRACE_SECONDS
        others = range(1, self._member.nodes)
        if not got.hellos:
            data = self._first.close("opening", 0, TO_ALL, self._opening)
            self._client.set({key_of(self._member, "opening", 0, "all"): data}, deadline)
        hellos = {self._key("hello", rank): rank for rank in others if rank not in got.hellos}
        results = {
            self._key("result", rank): rank for rank in got.hellos if rank not in got.results
        }
        wait = min(WAIT_SECONDS, self._deadline - time.monotonic())
        keys = [key for key in (*results, *hellos) if key not in self._too_large]
        if not keys:
            return False
        values, refused = self._client.read(keys, wait, deadline)
        for key, reason in refused.items():
            got.refused[{**hellos, **results}.get(key, 0)] = reason
            self._too_large.add(key)  # reading it again would keep the others from being read
        answers: dict[str, bytes] = {}
        for key, data in values.items():
            if key in hellos:
                self._accept_hello(hellos[key], data, answers)
            elif key in results:
                self._accept_result(results[key], data, answers)
        if answers:
            self._client.set(answers, deadline)
        return bool(answers)

    def _accept_hello(self, rank: int, data: bytes, answers: dict[str, bytes]) -> None:
        try:
            hello = self._seal.open(data, "hello", rank, 0, Hello)
        except MessageError as error:
            self.gathered.refused[rank] = str(error)
            return
        self.gathered.hellos[rank] = hello
        self.gathered.refused.pop(rank, None)
        echo = self._seal.close("welcome", 0, rank, Echo(nonce=hello.nonce))
        answers[key_of(self._member, "welcome", 0, rank)] = echo

    def _accept_result(self, rank: int, data: bytes, answers: dict[str, bytes]) -> None:
        try:
            result = self._seal.open(data, "result", rank, 0, Result)
        except MessageError as error:
            self.gathered.refused[rank] = str(error)
            return
        if (size := len(bytes(result.content))) > SUMMARY_BYTES:  # it is kept for each node
            reason = f"its result has {size:,} bytes; at most {SUMMARY_BYTES:,} allowed"
            self.gathered.refused[rank] = reason
            self._too_large.add(self._key("result", rank))
            return
        self.gathered.results[rank] = result
        self.gathered.refused.pop(rank, None)
        nonce = self.gathered.hellos[rank].nonce
        echo = self._seal.close("received", 0, rank, Echo(nonce=nonce))
        answers[key_of(self._member, "received", 0, rank)] = echo

    def _key(self, round: Round, rank: int) -> str:
        return key_of(self._member, round, rank, 0)

    def send(self, messages: Mapping[tuple[Round, int], msgspec.Struct], deadline: float) -> None:
        """Store messages by round and receiver. Raises StoreError."""
        assert self._client
        values = {
            key_of(self._member, round, 0, rank): self._seal.close(round, 0, rank, message)
            for (round, rank), message in messages.items()
        }
        self._client.set(values, deadline)

    def receive(
        self, rounds: Mapping[int, Round], kind: type[T], wait: float, deadline: float
    ) -> dict[int, T]:
        """Messages by their senders, of the round for each; those that verify. Raises StoreError.

        Waits at most so long for the first one.
        """
        assert self._client
        keys = {self._key(round, rank): rank for rank, round in rounds.items()}
        values, _ = self._client.read(keys, wait, deadline)
        found: dict[int, T] = {}
        for key, data in values.items():
            rank = keys[key]
            try:
                found[rank] = self._seal.open(data, rounds[rank], rank, 0, kind)
            except MessageError as error:
                self.gathered.refused[rank] = str(error)
        return found

    def finish(self, verdict: str, fleet_deadline: float) -> None:
        """Say that the report is printed, give the others a moment to read it, end the store."""
        now = time.monotonic()
        deadline = now + max(LEAVE_SECONDS, min(LONGEST_LEAVE, fleet_deadline - now))
        try:
            if self._client and self.gathered.hellos and not self.gathered.failed:
                data = self._seal.close("printed", 0, TO_ALL, Printed(verdict=verdict))
                self._client.set({key_of(self._member, "printed", 0, "all"): data}, deadline)
                self._wait_for_leaving(set(self.gathered.results), deadline)
        except StoreError:  # the others have a deadline of their own
            pass
        finally:
            self.end()

    def _wait_for_leaving(self, staying: set[int], deadline: float) -> None:
        assert self._client
        while staying and time.monotonic() < deadline:
            keys = {self._key("leaving", rank): rank for rank in staying}
            values, _ = self._client.read(keys, WAIT_SECONDS, deadline)
            staying -= {keys[key] for key in values}
            if not values:
                self._stop.wait(0.05)

    def end(self) -> None:
        """End the processes."""
        for process in (self._client, self._server):
            if process:
                process.end()


def listening_address(member: Member) -> str:
    """Where rank 0 listens: at the address that the user named, else everywhere."""
    return member.address if member.named and is_numeric(member.address) else ""


def is_numeric(address: str) -> bool:
    """Whether it is an address and no name."""
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    return True


def _number(answer: Answer, key: str) -> int | None:
    value = (answer.answer or {}).get(key)
    return value if isinstance(value, int) else None


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
        self._member, self._name, self._deadline = member, name, deadline + GRACE_SECONDS
        self._first = Seal(key, member.job, member.restart)
        self._seal: Seal | None = None
        self._nonce = new_nonce()
        self._result: Result | None = None
        self._changed = threading.Event()
        self._stopped = False
        loopback = member.named or member.joins_agent
        self._client = Client(python, member.address, member.port, loopback=loopback)

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

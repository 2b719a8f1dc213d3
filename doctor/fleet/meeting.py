"""What rank 0 and the others say to each other, each call and the whole within a deadline.

Each node joins (`hello`, answered by `welcome`), later sends what it examined (`result`, answered
by `received`) and stays until rank 0 has `printed`: a launcher may kill all others when the first
task ends. What is not answered is sent again after the connection was lost.
"""

from __future__ import annotations

import ipaddress
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self, TypeVar

import msgspec

from doctor.collect.child_messages import Answer
from doctor.facts.fleet import SUMMARY_BYTES
from doctor.fleet.member import Member
from doctor.fleet.messages import (
    Echo,
    Hello,
    MessageError,
    Opening,
    Printed,
    Result,
    Round,
    Seal,
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
PINGS = 5
"""Exchanges of clocks with one node."""
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.end()

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

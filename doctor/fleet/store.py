"""The processes that talk to torch's store, each call with a deadline that is kept by killing.

The store's own timeouts do not hold while its server is stopped, and resolving a name has none.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from doctor._util.records import Ended
from doctor.collect.child import Child, environment, probe_command
from doctor.collect.child_messages import Answer
from doctor.fleet.messages import MOST_BYTES

SERVER = "training_side.fleet.store_server"
CLIENT = "training_side.fleet.store_client"
IMPORT_SECONDS = 120.0
CALL_SECONDS = 10.0
"""For one call of the store. Its slowest answer to 2,000 values took less than a second."""
CONNECT_SECONDS = 10.0
"""For one attempt; attempts are repeated until the deadline of the fleet."""
SERVER_MEMORY, CLIENT_MEMORY = 2**30, 16 * MOST_BYTES
"""Bytes beyond what the imports take."""


class StoreError(Exception):
    """Why the store could not be reached or did not answer; `stage` is where."""

    def __init__(self, ended: Ended) -> None:
        super().__init__(ended.detail or ended.how)
        self.ended = ended


@dataclass(frozen=True, slots=True)
class Connected:
    """How a client reached the store."""

    address: str
    source: str
    interface: str
    resolving: float
    connecting: float


class StoreProcess:
    """A server or a client, started at once and asked later."""

    def __init__(self, python: str, probe: str, *arguments: str) -> None:
        self._python, self._probe, self._arguments = python, probe, arguments
        self._child = self._begin("light")
        self.is_ready = False

    def _begin(self, how: str) -> Child:
        command = probe_command(self._python, self._probe, *self._arguments, how)
        try:
            return Child(command, environment())
        except OSError as error:
            raise StoreError(Ended(how="error", detail=str(error))) from error

    def ready(self, deadline: float) -> Answer:
        """Its first answer, of torch's store alone or else of all of torch. Raises StoreError."""
        answer = self._wait(min(IMPORT_SECONDS, deadline - time.monotonic()))
        if not (answer.ended.ok or answer.ended.how == "timeout" or answer.ended.code is not None):
            self._child.kill()
            self._child = self._begin("whole")
            answer = self._wait(min(IMPORT_SECONDS, deadline - time.monotonic()))
        self.is_ready = answer.ended.ok
        return _checked(answer)

    def call(self, deadline: float, **request: object) -> dict[str, object]:
        """One answer. Raises StoreError, after which the process is gone."""
        self._child.send(request)
        answer = self._wait(min(CALL_SECONDS, deadline - time.monotonic()))
        return _checked(answer).answer or {}

    def _wait(self, seconds: float) -> Answer:
        return self._child.wait(max(0.0, seconds), look=False)

    @property
    def alive(self) -> bool:
        return self._child.alive

    def end(self) -> None:
        self._child.kill()


def _checked(answer: Answer) -> Answer:
    if not answer.ended.ok:
        raise StoreError(answer.ended_with_stage)
    return answer


class Client:
    """This node's connection to the store, made again after it was lost."""

    def __init__(self, python: str, host: str, port: int, *, loopback: bool) -> None:
        self._python, self._host, self._port, self._loopback = python, host, port, loopback
        self._process: StoreProcess | None = self._start()
        self._is_connected = False
        self.connected: Connected | None = None
        """The first time that it reached the store."""

    def _start(self) -> StoreProcess:
        return StoreProcess(self._python, CLIENT, str(CLIENT_MEMORY))

    def connect(self, deadline: float) -> None:
        """Reach the store, unless it is reached already. Raises StoreError."""
        if self._is_connected and self._process and self._process.alive:
            return
        self._is_connected = False
        if self._process is None or not self._process.alive:
            self.end()
            self._process = self._start()
        try:
            if not self._process.is_ready:
                self._process.ready(deadline)
            seconds = max(1.0, min(CONNECT_SECONDS, deadline - time.monotonic()) - 1.0)
            found = self._process.call(
                deadline,
                do="connect",
                host=self._host,
                port=self._port,
                seconds=seconds,
                loopback=self._loopback,
            )
        except StoreError:
            if not self._process.alive:
                self.end()
            raise
        self._is_connected = True
        self.connected = self.connected or Connected(
            str(found.get("address", "")),
            str(found.get("source", "")),
            str(found.get("interface", "")),
            _seconds(found.get("resolving")),
            _seconds(found.get("connecting")),
        )

    def set(self, values: Mapping[str, bytes], deadline: float) -> None:
        """Store values. Raises StoreError; that it did not does not prove that they arrived."""
        encoded = {key: base64.b64encode(value).decode("ascii") for key, value in values.items()}
        self._call(deadline, do="set", values=encoded)

    def read(
        self, keys: Iterable[str], wait: float, deadline: float
    ) -> tuple[dict[str, bytes], dict[str, str]]:
        """Those values that are there, and why others are refused. Raises StoreError.

        Waits for at most `wait` seconds for the first of them.
        """
        wait = max(0.0, min(wait, CALL_SECONDS / 2, deadline - time.monotonic()))
        found = self._call(deadline, do="read", keys=list(keys), wait=wait, most=MOST_BYTES)
        values, refused = found.get("values"), found.get("refused")
        if not isinstance(values, dict) or not isinstance(refused, dict):
            raise StoreError(Ended(how="error", detail="the client's answer is malformed"))
        if refused:
            self.end()
        return {key: base64.b64decode(value) for key, value in values.items()}, refused

    def _call(self, deadline: float, **request: object) -> dict[str, object]:
        self.connect(deadline)
        assert self._process
        try:
            return self._process.call(deadline, **request)
        except StoreError:
            self.end()
            raise

    def end(self) -> None:
        """End the process; the next call starts another one."""
        if self._process:
            self._process.end()
        self._process, self._is_connected = None, False


def _seconds(value: object) -> float:
    return value if isinstance(value, float) else 0.0


def start_server(python: str, address: str, port: int, nodes: int) -> StoreProcess:
    """Start a store that listens at one address of this machine, "" for all of them."""
    return StoreProcess(python, SERVER, address, str(port), str(nodes), str(SERVER_MEMORY))

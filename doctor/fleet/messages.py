"""Messages between nodes: sealed with a key, verified before anything of them is parsed.

The store authenticates nobody, so each message carries an HMAC-SHA256 over where it belongs (job,
restart, nonce of rank 0, round, sender, receiver) and what it says. A message of an earlier run, of
another node or for another one does not verify.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from doctor._util.errors import UserError

T = TypeVar("T")

Round = str
"""What a message is for: "opening", "hello", "welcome", "result", "received", "printed", "leaving",
and "order", "reply", "ping", "pong" with a number."""
SECRET = "DOCTOR_FLEET_SECRET"  # noqa: S105 - the name of the variable
LEAST_SECRET = 16
MAC_BYTES = 32
MOST_BYTES = 4 * 2**20
"""Of a message; the store drops a client that sends more than 8 MiB."""
MOST_UNPACKED = 8 * 2**20


class MessageError(Exception):
    """Why a message is refused, in words that a report can print."""


class Opening(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rank 0 to all: this run."""

    nonce: str
    nodes: int


class Hello(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A node to rank 0: it is there."""

    nonce: str
    """The node's own, which the welcome repeats: an opening of an earlier run has no welcome."""
    node: str
    """The launcher's name, else the host's."""
    version: str
    source: str = ""
    """The address that this node reached rank 0 from."""
    interface: str = ""
    resolving: float = 0.0
    """Seconds that the name of rank 0 took to resolve."""
    connecting: float = 0.0


class Echo(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rank 0 to a node: a message of the node arrived."""

    nonce: str


class Result(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A node to rank 0: what it examined as JSON, or why there is nothing."""

    content: msgspec.Raw = msgspec.Raw(b"null")
    failed: str = ""


class Order(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rank 0 to a node: what to do next."""

    do: Literal["clock", "token", "pair", "share", "rates", "values"]
    content: msgspec.Raw = msgspec.Raw(b"null")


class Reply(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A node to rank 0: what came of an order, or why nothing did."""

    content: msgspec.Raw = msgspec.Raw(b"null")
    failed: str = ""


class Tick(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A moment on the sender's clock."""

    at: float
    """Seconds since the epoch."""
    last: bool = False
    """No further exchange follows: on a slow connection one or two must do."""


class Printed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rank 0 to all: the report is out."""

    verdict: str


@dataclass(frozen=True, slots=True)
class Seal:
    """What makes the messages of one run its own."""

    key: bytes
    """b"" without authentication: then the code is a checksum."""
    job: str
    restart: int
    nonce: str = ""
    """Of rank 0; "" for its opening and the hello that comes before it was read."""

    def close(self, round: Round, sender: int, receiver: int, message: msgspec.Struct) -> bytes:
        """The message as it is stored. Raises MessageError if it is too large."""
        text = msgspec.json.encode(message)
        if len(text) > MOST_UNPACKED:
            raise MessageError(f"{len(text)} bytes; at most {MOST_UNPACKED} are sent")
        payload = zlib.compress(text, 1)
        if len(payload) > MOST_BYTES - MAC_BYTES:
            raise MessageError(f"{len(payload)} bytes; at most {MOST_BYTES} are sent")
        return self._mac(round, sender, receiver, payload) + payload

    def open(self, data: bytes, round: Round, sender: int, receiver: int, kind: type[T]) -> T:
        """The message in `data`. Raises MessageError unless it is this sender's, for this round."""
        if not MAC_BYTES <= len(data) <= MOST_BYTES:
            raise MessageError(f"{len(data)} bytes are no message")
        payload = data[MAC_BYTES:]
        if not hmac.compare_digest(data[:MAC_BYTES], self._mac(round, sender, receiver, payload)):
            raise MessageError("it is sealed with another key, or belongs to another run")
        try:
            return msgspec.json.decode(_unpacked(payload), type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise MessageError(f"it is malformed: {' '.join(str(error).split())[:200]}") from None

    def _mac(self, round: Round, sender: int, receiver: int, payload: bytes) -> bytes:
        fields = (self.job, str(self.restart), self.nonce, round, str(sender), str(receiver))
        mac = hmac.new(self.key, digestmod=hashlib.sha256)
        for field in (*(each.encode() for each in fields), payload):
            mac.update(len(field).to_bytes(8, "big"))  # no field can pass for the end of another
            mac.update(field)
        return mac.digest()


def _unpacked(payload: bytes) -> bytes:
    """Decompressed JSON of a bounded size. Raises MessageError."""
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(payload, MOST_UNPACKED)
    except zlib.error as error:
        raise MessageError(f"it cannot be decompressed: {error}") from None
    if not unpacker.eof or unpacker.unused_data:
        raise MessageError("it is incomplete or too large")
    return text


def new_nonce() -> str:
    return os.urandom(16).hex()


def read_key(secret_file: Path | None, environ: Mapping[str, str]) -> bytes:
    """The key of the fleet, b"" where none is given. Raises UserError."""
    if secret_file is None:
        secret, origin = environ.get(SECRET, "").encode(), SECRET
        if not secret:
            return b""
    else:
        secret, origin = _read_private(secret_file), f"--secret-file {secret_file}"
    if len(secret) < LEAST_SECRET:
        raise UserError(f"{origin} has {len(secret)} characters; at least {LEAST_SECRET} required")
    return hashlib.sha256(secret).digest()


def _read_private(path: Path) -> bytes:
    """The content of a file that nobody else can read. Raises UserError."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode) or mode & 0o077:
                raise UserError(
                    f"--secret-file {path} is open to others (mode {stat.S_IMODE(mode):04o}); "
                    f"chmod 600 {path}"
                )
            return file.read(4096).strip()
    except OSError as error:
        raise UserError(f"--secret-file {path}: {error.strerror or error}") from None

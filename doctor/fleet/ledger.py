"""A directory of known machines: what was seen of GPUs and hosts, one file for each record.

A record is written under a temporary name, synced and renamed, so writers need no lock and a torn
file is none of its. `forget` writes a tombstone. Now and then one writer, who holds a lock file,
replaces the files by one. Names and UUIDs are pseudonyms under a key that lies elsewhere, so equal
ones stay equal and the ledger names nobody.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import hmac
import os
import secrets
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from doctor._util.errors import reason_of
from doctor._util.text_fields import Identifier, Product

Kind = Literal["gpu", "host", "node"]
"""node: the rates of a host with these GPUs."""
Time = Annotated[str, msgspec.Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ(?!\n)$")]
MOST_BYTES = 128 * 2**20
"""Of a record: some 100,000 GPUs."""
MOST_FILES = 100_000
COMPACT = 64
"""Records from which one writer makes one of them."""
STALE = 3600.0
"""Seconds after which a lock file belongs to a writer that died."""
KEPT = 16
"""Sightings of a device that a compaction keeps: the failures, and the last one."""
LOCK = ".compacting"
SUFFIX = ".doctor.json"


class Sighting(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A device, as one run saw it."""

    kind: Kind
    key: Identifier
    """Pseudonym of the UUID, of the host's name, or of all GPUs of a node."""
    time: Time
    node: Identifier = ""
    """Pseudonym of the node's name, or the name itself where names are kept."""
    outcome: Literal["ready", "fix", "return", "unknown"] = "unknown"
    codes: tuple[Product, ...] = ()
    """Failures that are the machine's own."""
    rates: dict[str, float] = {}


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file of the ledger."""

    version: Literal[1] = 1
    key_id: str
    """Of the key of the pseudonyms."""
    sightings: tuple[Sighting, ...] = ()
    forgotten: dict[str, str] = {}
    """Pseudonym -> when it was forgotten: older sightings of it do not count."""


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """What all files say."""

    sightings: dict[str, tuple[Sighting, ...]] = {}
    """Pseudonym -> sightings, the oldest first, without forgotten ones."""
    forgotten: dict[str, str] = {}
    files: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    """Files that are no records, each with the reason."""
    key_ids: tuple[str, ...] = ()


class Pseudonyms:
    """Names under a key: equal names have equal ones, and without the key none leads back."""

    def __init__(self, key: bytes, *, keep_names: bool = False) -> None:
        self._key = key
        self.keep_names = keep_names
        self.key_id = self._digest("the key itself")

    def of(self, kind: Kind, name: str) -> str:
        """The pseudonym of a UUID, a name, or the joined UUIDs of a node."""
        return f"{kind}-{self._digest(f'{kind}:{name.casefold()}')}"

    def name(self, name: str) -> str:
        """What a record has for the name of a node."""
        return name if self.keep_names else self.of("host", name)

    def _digest(self, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        return hmac.new(self._key, data, hashlib.sha256).hexdigest()[:12]


def read(directory: Path) -> Content:
    """What the ledger has. Raises OSError where the directory cannot be read.

    Files that are torn, strange or too large are named and left out: a ledger on shared storage is
    untrusted.
    """
    names = sorted(entry.name for entry in directory.iterdir() if entry.name.endswith(SUFFIX))
    records: list[Record] = []
    files, unread = [], []
    for name in names[:MOST_FILES]:
        try:
            records.append(_read(directory / name))
            files.append(name)
        except FileNotFoundError:
            continue  # compacted in the meantime: its content is in another file
        except (OSError, ValueError) as error:
            reason = " ".join(reason_of(error).split())
            unread.append(f"{name}: {reason[:200]}")
    return _content(records, tuple(files), tuple(unread))


def _read(path: Path) -> Record:
    with open(path, "rb", opener=_without_links) as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError(f"exceeds the {MOST_BYTES >> 20} MiB limit")
    try:
        return msgspec.json.decode(data, type=Record)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not a record: {error}") from None


def _without_links(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)


def _content(records: Sequence[Record], files: tuple[str, ...], unread: tuple[str, ...]) -> Content:
    forgotten: dict[str, str] = {}
    for record in records:
        for key, at in record.forgotten.items():
            forgotten[key] = max(at, forgotten.get(key, ""))
    by_key: dict[str, dict[bytes, Sighting]] = defaultdict(dict)
    for each in (each for record in records for each in record.sightings):
        if each.time > forgotten.get(each.key, ""):
            by_key[each.key][msgspec.json.encode(each)] = each  # once, also amid a compaction
    return Content(
        sightings={
            key: tuple(sorted(found.values(), key=lambda each: each.time))
            for key, found in by_key.items()
        },
        forgotten=forgotten,
        files=files,
        unread=unread,
        key_ids=tuple(dict.fromkeys(record.key_id for record in records)),
    )


def now() -> str:
    """The time as records have it."""
    return f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%SZ}"


def write(directory: Path, record: Record) -> str:
    """The name of the new file. Raises OSError."""
    stamp = f"{datetime.datetime.now(datetime.UTC):%Y%m%dT%H%M%S}"
    name = f"{stamp}-{secrets.token_hex(8)}{SUFFIX}"
    temporary = directory / f".{name}.part"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        with os.fdopen(os.open(temporary, flags, 0o666), "wb") as file:
            file.write(msgspec.json.encode(record))
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(directory / name)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    return name


def compact(directory: Path, key_id: str) -> bool:
    """Replace the files by one, if there are many and no other writer does so. Raises OSError."""
    content = read(directory)
    if len(content.files) < COMPACT or set(content.key_ids) > {key_id}:
        return False
    lock = directory / LOCK
    if not _locked(lock):
        return False
    try:
        kept = tuple(each for found in content.sightings.values() for each in _kept(found))
        record = Record(key_id=key_id, sightings=kept, forgotten=content.forgotten)
        write(directory, record)
        for name in content.files:  # after the rename: a reader sees both, or the new one
            with contextlib.suppress(FileNotFoundError):
                (directory / name).unlink()
    finally:
        with contextlib.suppress(OSError):
            lock.unlink()
    return True


def _locked(lock: Path) -> bool:
    """Whether this process has the lock now. One that a dead writer left is removed."""
    with contextlib.suppress(OSError):
        if time.time() - lock.stat().st_mtime > STALE:
            lock.unlink()
    try:
        os.close(os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
    except FileExistsError:
        return False
    return True


def _kept(found: Sequence[Sighting]) -> Sequence[Sighting]:
    failed = [each for each in found if each.codes]
    return [*failed[-KEPT:], *(found[-1:] if not found[-1].codes else ())]

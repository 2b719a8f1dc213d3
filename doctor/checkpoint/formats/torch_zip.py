"""What torch.save writes: a zip of a pickle and of storages, none of them compressed."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from doctor._util.units import shown
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.formats.torch_objects import Tree
from doctor.checkpoint.io.files import Source, prefetch
from doctor.checkpoint.pickle.reader import LARGEST, read_pickle

ZIP = b"PK\x03\x04"

TAIL = 22 + 65_535
"""Where the end of a zip's directory is looked for: its comment has a limit."""

LARGEST_DIRECTORY = 64 * 1024 * 1024
"""Bytes of a directory that is read: torch's takes some 120 per storage."""

LONGEST_NAME = 4_096

_END = struct.Struct("<4sHHHHIIH")
_END64_PLACE = struct.Struct("<4sIQI")
_END64 = struct.Struct("<4sQHHIIQQQQ")
_ENTRY = struct.Struct("<4sHHHHHHIIIHHHHHII")
LOCAL = struct.Struct("<4sHHHHHIIIHH")

OWN_RECORDS = re.compile(
    r"[^/]+/(?:data\.pkl|data/\d+|version|byteorder|\.format_version|\.storage_alignment"
    r"|\.data/serialization_id)"
)
"""What torch.save writes."""

DEFLATED = 8

TORCHSCRIPT = "is a TorchScript program, not a checkpoint"

_ENCRYPTED = 0x0001 | 0x0040 | 0x2000


class Record(NamedTuple):
    """One file in the zip: where its local header is, its bytes, and where the next one begins."""

    header: int
    size: int
    flags: int
    method: int
    packed: int
    limit: int = 0
    crc: int = 0
    """CRC-32 of its bytes, by the zip's directory."""


@dataclass(slots=True)
class Records:
    """The directory of a zip, and what is read through it."""

    source: Source
    root: str
    records: dict[str, Record]
    places: dict[str, tuple[int, int]] = field(default_factory=dict)

    def place(self, name: str) -> tuple[int, int]:
        """Where a record's bytes begin, and how many are stored. Raises CheckpointError."""
        if name not in self.places:
            self.places[name] = self._payload(name)
        return self.places[name]

    def storage(self, key: str) -> tuple[int, int]:
        """The same of a storage, by its key."""
        return self.place(f"data/{key}")

    def read(self, name: str, limit: int) -> bytes:
        """A record of at most `limit` bytes. Raises CheckpointError."""
        begin, size = self.place(name)
        record = self.records[name]
        if max(size, record.size) > limit:
            text = f"has a {shown(name)} of {record.size:,} bytes, over the {limit:,} that are read"
            raise CheckpointError("not-inspectable", text)
        data = exactly(self.source, size, begin)
        if record.method != DEFLATED:
            return data
        try:
            unpacked = zlib.decompressobj(-15).decompress(data, limit)
        except zlib.error:
            unpacked = b""
        if len(unpacked) != record.size:
            raise CheckpointError("damaged", f"has a compressed {shown(name)} that is damaged")
        return unpacked

    def _payload(self, name: str) -> tuple[int, int]:
        record = self.records.get(name)
        if record is None:
            raise CheckpointError("damaged", f"refers to {shown(name)}, which is not in it")
        full = f"{self.root}/{name}".encode()
        data = exactly(self.source, LOCAL.size + len(full), record.header)
        magic, _, flags, method, *_, packed, size, length, extra = LOCAL.unpack_from(data)
        if magic != ZIP or data[LOCAL.size :] != full or length != len(full):
            text = f"has a directory that disagrees with what lies at {shown(name)}"
            raise CheckpointError("damaged", text)
        sizes = packed in (0, record.packed, 0xFFFFFFFF) and size in (0, record.size, 0xFFFFFFFF)
        same = sizes and method == record.method
        if not same or flags & _ENCRYPTED:
            raise CheckpointError("damaged", f"has two descriptions of {shown(name)} that differ")
        begin = record.header + LOCAL.size + length + extra
        if begin + record.packed > record.limit:
            raise CheckpointError("damaged", f"has bytes that overlap, in {shown(name)}")
        return begin, record.packed


def payload(source: Source, record: Record) -> int:
    """Where a record's bytes begin, by its own header. Raises CheckpointError."""
    local = source.read(LOCAL.size, record.header)
    if len(local) != LOCAL.size or not local.startswith(ZIP):
        raise CheckpointError("damaged", "has a zip directory that points to no record")
    length, extra = LOCAL.unpack(local)[-2:]
    return int(record.header + LOCAL.size + length + extra)


def zip_tree(source: Source, file: str) -> Tree:
    """What a file of torch.save holds. Raises CheckpointError."""
    records = read_directory(source)
    headers = [record.header for name, record in records.records.items() if name[:5] == "data/"]
    prefetch(source, [(begin, begin + 256) for begin in headers])
    order = records.read("byteorder", 16) if "byteorder" in records.records else b"little"
    if order == b"big":
        raise CheckpointError("not-inspectable", "has big-endian numbers")
    if order != b"little":
        raise CheckpointError("damaged", f"has numbers of the byte order {shown(ascii(order))}")
    data = records.read("data.pkl", LARGEST)
    pickled = read_pickle(data)
    own = (f"{records.root}/{name}" for name in records.records)
    return Tree(
        source,
        file,
        pickled,
        records.storage,
        behind=data[pickled.end :],
        extra=[
            (name, records.records[name.partition("/")[2]])
            for name in own
            if not OWN_RECORDS.fullmatch(name)
        ],
    )


def exactly(source: Source, size: int, offset: int) -> bytes:
    """Bytes that have to be there. Raises CheckpointError where the file is shorter than it was."""
    data = source.read(size, offset)
    if len(data) != size:
        raise CheckpointError(
            "damaged", f"ends at {offset + len(data):,}, before what it says it holds"
        )
    return data


def read_directory(source: Source) -> Records:
    """The records of a zip, by their names below its one directory. Raises CheckpointError."""
    entries, begin = _listed(source)
    root = _root([name for name, _ in entries])
    if any(name == f"{root}/constants.pkl" for name, _ in entries):
        raise CheckpointError("not-inspectable", TORCHSCRIPT)
    for name, record in entries:
        _stored(name, record)
    records = _apart(entries, begin)
    return Records(source, root, {name[len(root) + 1 :]: each for name, each in records.items()})


def read_entries(source: Source) -> list[tuple[str, Record]]:
    """Every entry of a zip's directory, those of one name too. Raises CheckpointError."""
    return _listed(source)[0]


def _listed(source: Source) -> tuple[list[tuple[str, Record]], int]:
    """The entries, and where their directory begins. Raises CheckpointError."""
    begin, size, count = _end(source)
    if size > LARGEST_DIRECTORY:
        text = f"{size:,} bytes, over the {LARGEST_DIRECTORY:,} that are read"
        raise CheckpointError("not-inspectable", f"has a zip directory of {text}")
    try:
        return list(_entries(exactly(source, size, begin), count)), begin
    except UnicodeDecodeError:
        raise CheckpointError(
            "damaged", "has names in its zip directory that are not UTF-8"
        ) from None
    except (struct.error, IndexError):
        raise CheckpointError("damaged", "has a malformed zip directory") from None


def _end(source: Source) -> tuple[int, int, int]:
    """Where the directory begins, its bytes and its entries."""
    size = source.size
    start = max(0, size - TAIL)
    tail = exactly(source, size - start, start)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < _END.size:
        raise CheckpointError(
            "damaged", "has no zip directory at its end, as a file that was cut short"
        )
    _, disk, first, entries_on_disk, count, length, begin, comment = _END.unpack_from(tail, at)
    if at + _END.size + comment != len(tail):
        text = "does not end with its zip directory, as a file that was cut short or added to"
        raise CheckpointError("damaged", text)
    if disk or first or entries_on_disk != count:
        wide = disk in (0, 0xFFFF) and first in (0, 0xFFFF) and entries_on_disk == count
        if not wide:
            raise CheckpointError("not-inspectable", "is a zip in several parts")
    limit = start + at
    place = at - _END64_PLACE.size
    if place >= 0 and tail[place : place + 4] == b"PK\x06\x07":
        begin, length, count, limit = _end64(source, tail[place:at], start + place)
    if begin + length != limit:
        raise CheckpointError("damaged", "has a zip directory that is not where it says")
    return begin, length, count


def _end64(source: Source, place: bytes, limit: int) -> tuple[int, int, int, int]:
    """The same, where numbers need 64 bits; and where the wider end of the directory is."""
    _, disk, at, disks = _END64_PLACE.unpack(place)
    if disk or disks > 1 or at + _END64.size > limit:
        raise CheckpointError("damaged", "has a zip64 directory that is not in it")
    fields = _END64.unpack(exactly(source, _END64.size, at))
    magic, size, _, _, disk, first, entries_on_disk, count, length, begin = fields
    if (
        magic != b"PK\x06\x06"
        or disk
        or first
        or entries_on_disk != count
        or at + 12 + size != limit
    ):
        raise CheckpointError("damaged", "has a malformed zip64 directory")
    return begin, length, count, at


def _entries(data: bytes, count: int) -> Iterator[tuple[str, Record]]:
    """Names and records, as the directory has them; `limit` is not known yet."""
    at, number = 0, 0
    while at < len(data):
        fields = _ENTRY.unpack_from(data, at)
        magic, flags, method = fields[0], fields[3], fields[4]
        packed, size, length, extra, comment, disk = fields[8:14]
        header = fields[16]
        begin = at + _ENTRY.size
        at = begin + length + extra + comment
        if magic != b"PK\x01\x02" or at > len(data) or not 0 < length <= LONGEST_NAME:
            raise CheckpointError("damaged", "has a malformed zip directory")
        name = data[begin : begin + length].decode()
        if 0xFFFFFFFF in (size, packed, header):
            more = data[begin + length : begin + length + extra]
            size, packed, header = _wide(more, size, packed, header)
        if disk not in (0, 0xFFFF):
            raise CheckpointError("not-inspectable", "is a zip in several parts")
        number += 1
        yield name, Record(header, size, flags, method, packed, crc=fields[7])
    if number != count:
        raise CheckpointError(
            "damaged", f"has {number:,} entries in its zip directory, which says {count:,}"
        )


def _stored(name: str, record: Record) -> None:
    if record.flags & _ENCRYPTED:
        raise CheckpointError(
            "not-inspectable", f"is a zip with an encrypted record, {shown(name)}"
        )
    if record.method and (record.method != DEFLATED or "/data/" in name):
        text = (
            f"is a zip with a compressed record, {shown(name)}, which torch.load reads without "
            "mmap only; save it again with torch.save to have it examined"
        )
        raise CheckpointError("not-inspectable", text)
    if record.size != record.packed and not record.method:
        raise CheckpointError("damaged", f"describes {shown(name)} with two sizes")


def _wide(extra: bytes, size: int, packed: int, header: int) -> tuple[int, int, int]:
    """Numbers that need 64 bits are in the extra field, in this order."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == 1:
            wide = iter(struct.unpack_from(f"<{length // 8}Q", extra, at + 4))
            values = [next(wide, -1) if n == 0xFFFFFFFF else n for n in (size, packed, header)]
            if -1 not in values:
                return values[0], values[1], values[2]
        at += 4 + length
    raise CheckpointError("damaged", "has a malformed zip64 entry")


def _root(names: list[str]) -> str:
    """The one directory that everything is in."""
    pickles = [name for name in names if name.endswith("/data.pkl") and name.count("/") == 1]
    if not pickles:
        raise CheckpointError("not-inspectable", "is a zip archive that torch.save did not write")
    root = pickles[0].partition("/")[0]
    stray = [name for name in names if not name.startswith(f"{root}/")]
    if stray:
        text = f"is a zip with records outside of {shown(root)}, such as {shown(stray[0])}"
        raise CheckpointError("not-inspectable", text)
    return root


def _apart(entries: list[tuple[str, Record]], end: int) -> dict[str, Record]:
    """The records with where the next begins.

    Raises CheckpointError for repeated names and overlaps.
    """
    records: dict[str, Record] = {}
    folded: set[str] = set()
    limit = end
    for name, record in sorted(entries, key=lambda entry: entry[1].header, reverse=True):
        folded.add(name.lower())
        least = record.header + LOCAL.size + len(name.encode())
        if least + record.packed > limit:
            text = f"bytes that overlap or that are not in it, in {shown(name)}"
            raise CheckpointError("damaged", f"has {text}")
        records[name] = record._replace(limit=limit)
        limit = record.header
    if len(folded) != len(entries):
        raise CheckpointError("damaged", "has two records of one name")
    return records

"""Every pickle of a file with the globals that it names, whether or not the file is whole.

The readers of tensors stop where a file is damaged. A loader that unpickles has by then executed
what lies before the damage, so the globals are listed here without any of the readers' conditions.
"""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from doctor._util.units import shown
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.formats import numpy_arrays
from doctor.checkpoint.formats.compressed import MAGICS, magic_of, unpack
from doctor.checkpoint.formats.joblib_pickles import PICKLED, of_joblib
from doctor.checkpoint.formats.torch_legacy import MAGIC
from doctor.checkpoint.formats.torch_zip import (
    DEFLATED,
    LOCAL,
    OWN_RECORDS,
    TAIL,
    ZIP,
    Record,
    payload,
    read_entries,
)
from doctor.checkpoint.inventory import Inventory
from doctor.checkpoint.io.file_type import LOOK, is_tar
from doctor.checkpoint.io.files import Source, prefetch
from doctor.checkpoint.pickle.reader import LARGEST, read_pickle

DIRECTORY_END = b"PK\x05\x06"
IN_A_ROW = 5
"""Pickles at the beginning of a file: torch's legacy form has as many."""
FIRST = 1024 * 1024
"""Read at once: the pickles of most files are shorter."""
DEEPEST = 8
"""Files inside pickles inside files."""
MOST_RECORDS = 1_000
MOST_LOST, LOST = 5_000, 4 * 1024 * 1024
"""Records of a zip without a directory, and bytes of each pickle that are read there."""
_UNREAD = (
    (b"7z\xbc\xaf\x27\x1c", "is a 7z archive"),
    (b"\x28\xb5\x2f\xfd", "is packed by zstd"),
    (b"\x04\x22\x4d\x18", "is packed by lz4"),
    (b"\x02\x21\x4c\x18", "is packed by lz4"),
)
"""What may hold pickles and cannot be unpacked here."""
_OTHER_FORMATS = (b"GGUF", b"\x89HDF\r\n", b"version https://git-")
_TEXT_PICKLE = re.compile(rb"[(\]}]*[ci][\w.]{1,100}\n[\w.]{1,100}\n")
"""A pickle of protocol 0 or 1 that begins with a global."""
_HOLDS_PICKLES = (ZIP, numpy_arrays.MAGIC, *MAGICS)


def take_inventory(source: Source, file: str) -> Inventory:
    """All pickles of an open file; none where it is of another format. Never raises."""
    inventory = Inventory(file)
    _look(source, inventory, 0)
    return inventory


def nested_inventory(files: Iterable[bytes], file: str) -> Inventory:
    """The pickles of files of torch.save that a pickle of `file` holds as bytes."""
    inventory = Inventory(file)
    for data in files:
        _look(_Memory(data), inventory, 1)
    return inventory


@dataclass(frozen=True, slots=True)
class _Memory:
    """Bytes as a file."""

    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)

    def read(self, size: int, offset: int) -> bytes:
        return self.data[offset : offset + size]


def _look(source: Source, inventory: Inventory, depth: int) -> None:
    if depth >= DEEPEST:
        inventory.break_off(f"has files of torch.save more than {DEEPEST} deep in each other")
        return
    try:
        first = source.read(min(LOOK, source.size), 0)
        compressed = magic_of(first)
        if unread := _unread(first):
            inventory.break_off(f"{unread}, whose content was not read")
        if first.startswith(ZIP):
            _archive(source, inventory, depth)
        elif first.startswith(numpy_arrays.MAGIC):
            first = source.read(min(numpy_arrays.BEGINNING, source.size), 0)
            _array(first, source, inventory, depth)
        elif compressed:
            _unpacked(source, compressed, inventory, depth)
        elif not first.startswith(_OTHER_FORMATS):
            _in_a_row(source, inventory, depth)
            _behind(source, inventory, depth)
    except CheckpointError as error:
        inventory.break_off(error.text)


def _unread(first: bytes) -> str:
    """What a file is that cannot be unpacked here, "" where it is none."""
    if is_tar(first):
        return "is a tar archive"
    return next((text for begin, text in _UNREAD if first.startswith(begin)), "")


def _behind(source: Source, inventory: Inventory, depth: int) -> None:
    """A zip behind other bytes, which some programs read all the same."""
    if DIRECTORY_END in source.read(min(TAIL, source.size), max(0, source.size - TAIL)):
        inside = Inventory(inventory.file)
        _archive(source, inside, depth)
        inventory.merge(inside)


def _unpacked(source: Source, magic: bytes, inventory: Inventory, depth: int) -> None:
    """A file that is compressed as a whole, or a plain pickle that begins as one does."""
    data = source.read(min(LARGEST, source.size), 0)
    unpacked = unpack(data, magic)
    plain, inside = Inventory(inventory.file), Inventory(inventory.file)
    if unpacked.incomplete or not unpacked.content:
        _in_a_row(source, plain, depth)
        _behind(source, plain, depth)
    _look(_Memory(unpacked.content), inside, depth + 1)
    inventory.merge(inside)
    inventory.merge(plain)
    if unpacked.content or not plain.pickles:
        inventory.break_off(inside.incomplete or unpacked.incomplete)
    if source.size > len(data):
        inventory.break_off(f"is compressed, and only its first {LARGEST >> 20} MiB were read")


def _in_a_row(source: Source, inventory: Inventory, depth: int) -> None:
    """The pickle at the beginning, and those behind it in torch's legacy form."""
    data = _beginning(source)
    pending = [] if _of_joblib(data, inventory, depth) else [(0, 0)]
    while pending:
        number, at = pending.pop()
        if number == IN_A_ROW:
            continue
        try:
            pickled = read_pickle(data, at)
        except CheckpointError as error:
            pending += [(number + 1, end) for end in error.ends]
            if not (inventory.pickles or error.imports or PICKLED.match(data, at)):
                continue  # no pickle, or one of plain values: an unpickler imports nothing
            inventory.pickles += 1
            inventory.add(error.imports, error.actions)
            inventory.break_off(error.text)
            continue
        inventory.pickles += 1
        inventory.add(pickled.imports, pickled.actions, pickled.protocol)
        for nested in pickled.nested:
            _look(_Memory(nested), inventory, depth + 1)
        if number or pickled.value == MAGIC or PICKLED.match(data, pickled.end):
            pending.append((number + 1, pickled.end))


def _of_joblib(data: bytes, inventory: Inventory, depth: int) -> bool:
    """Whether it is a pickle of joblib; it is then listed."""
    if (found := of_joblib(data, inventory.file)) is None:
        return False
    inventory.merge(found[0])
    for nested in found[1]:
        _look(_Memory(nested), inventory, depth + 1)
    return True


def _beginning(source: Source) -> bytes:
    """As much as holds the pickles in a row."""
    data = source.read(min(FIRST, source.size), 0)
    if source.size > len(data) and not _ends_within(data):
        data = source.read(min(LARGEST, source.size), 0)
    return data


def _array(first: bytes, source: Source, inventory: Inventory, depth: int) -> None:
    """The pickle of a numpy array of objects; `first` is the beginning of the array's file."""
    begin = numpy_arrays.pickle_offset(first)
    if begin is None:
        return
    data = source.read(min(LARGEST, source.size), 0)
    inventory.pickles += 1
    _read(data[begin:], "", inventory, depth)


def _ends_within(data: bytes) -> bool:
    """Whether all pickles in a row end within the beginning of a file."""
    at = 0
    try:
        for number in range(IN_A_ROW):
            pickled = read_pickle(data, at)
            at = pickled.end
            if not (number or pickled.value == MAGIC or PICKLED.match(data, at)):
                return at < len(data)
    except CheckpointError as error:
        return at == 0 and not (error.imports or PICKLED.match(data))
    return True


def _archive(source: Source, inventory: Inventory, depth: int) -> None:
    """The pickles of a zip, by its directory; by the records themselves where that is broken."""
    try:
        entries = read_entries(source)
    except CheckpointError as error:
        inventory.break_off(error.text)
        entries = list(itertools.islice(_local_records(source), MOST_LOST))
    if any(record.flags & 1 for _, record in entries):
        inventory.break_off("is a zip with encrypted records")
    pickles = [(name, record) for name, record in entries if name.lower().endswith(".pkl")]
    others = [
        (name, record)
        for name, record in entries
        if not (name.lower().endswith(".pkl") or (pickles and OWN_RECORDS.fullmatch(name)))
    ]
    if len(pickles) + len(others) > MOST_RECORDS:
        inventory.break_off(f"is a zip with {len(pickles) + len(others):,} pickles or arrays")
    records = [*pickles, *others][:MOST_RECORDS]
    prefetch(source, [(record.header, record.header + 256) for _, record in records])
    for name, record in pickles[:MOST_RECORDS]:
        inventory.pickles += 1
        _record(source, name, record, inventory, depth)
    for name, record in others[:MOST_RECORDS]:
        _other_record(source, name, record, inventory, depth)


def _other_record(
    source: Source, name: str, record: Record, inventory: Inventory, depth: int
) -> None:
    """A record that is not called a pickle: an array, or a pickle under another name."""
    try:
        first = _bytes(source, record, LOOK)
        if first.startswith(_HOLDS_PICKLES) or PICKLED.match(first) or _TEXT_PICKLE.match(first):
            inside = Inventory(inventory.file)
            _look(_Memory(_bytes(source, record)), inside, depth + 1)
            inventory.merge(inside)
    except CheckpointError as error:
        inventory.break_off(f"{error.text}, in {shown(name)}")


def extra_records(source: Source, file: str, records: Iterable[tuple[str, Record]]) -> Inventory:
    """The pickles in records of a file of torch.save that torch.load does not read."""
    inventory = Inventory(file)
    for name, record in itertools.islice(records, MOST_RECORDS):
        _other_record(source, name, record, inventory, 0)
    return inventory


def pickles_behind(data: bytes, file: str) -> Inventory:
    """What lies behind the first pickle of a record."""
    inventory = Inventory(file)
    if PICKLED.match(data) or _TEXT_PICKLE.match(data):
        _in_a_row(_Memory(data), inventory, 1)
    return inventory


def _record(source: Source, name: str, record: Record, inventory: Inventory, depth: int) -> None:
    try:
        data = _bytes(source, record)
    except CheckpointError as error:
        inventory.break_off(f"{error.text}, in {shown(name)}")
        return
    _read(data, f", in {shown(name)}", inventory, depth)


def _read(data: bytes, place: str, inventory: Inventory, depth: int) -> None:
    """One pickle, whose imports are listed up to where it is damaged."""
    try:
        pickled = read_pickle(data)
    except CheckpointError as error:
        inventory.add(error.imports, error.actions)
        inventory.break_off(f"{error.text}{place}")
        return
    inventory.add(pickled.imports, pickled.actions, pickled.protocol)
    inventory.merge(pickles_behind(data[pickled.end :], inventory.file))
    for nested in pickled.nested:
        _look(_Memory(nested), inventory, depth + 1)


def _bytes(source: Source, record: Record, limit: int = LARGEST) -> bytes:
    """The first bytes of a record, whatever else its headers say. Raises CheckpointError."""
    data = source.read(min(max(record.packed, record.size), limit), payload(source, record))
    if record.method != DEFLATED:
        return data
    try:
        return zlib.decompressobj(-15).decompress(data, limit)
    except zlib.error:
        raise CheckpointError("damaged", "has a compressed record that is damaged") from None


def _local_records(source: Source) -> Iterator[tuple[str, Record]]:
    """Records by their own headers, in a file without a directory that can be used.

    Their sizes may be damaged too: each is taken to go on, and its pickle says where it ends.
    """
    data = source.read(min(LARGEST, source.size), 0)
    at = data.find(ZIP)
    while at >= 0:
        following = data.find(b"PK", at + 4)
        if at + LOCAL.size <= len(data):
            _, _, flags, method, *_, length, _ = LOCAL.unpack_from(data, at)
            name = data[at + LOCAL.size : at + LOCAL.size + length].decode("utf-8", "replace")
            room = min(len(data) - at, LOST)
            yield name, Record(at, room, flags, method, room)
        at = data.find(ZIP, following) if following >= 0 else -1

"""Scalars of TensorBoard event files, read without TensorFlow.

A file is a sequence of records: length (8 bytes), its checksum (4), the data, its checksum (4).
The data is a protocol buffer: Event {1: wall time, 2: step, 5: Summary {1: Value {1: tag,
2: simple_value, 8: TensorProto {1: type, 4: content, 5: float values}}}}.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from doctor.log.blocks import Stream
from doctor.log.metrics.curves import Curves

LONGEST = 64 << 20
"""Bytes of a record; larger ones are skipped, they hold no scalars."""
SCALARS = 1 << 20
"""Bytes of a record that is parsed."""
MOST_FIELDS = 100_000
Field = tuple[int, int, int | bytes]
"""Number, wire type and value of a field."""


def is_events(head: bytes) -> bool:
    """Whether a file begins with the record that names the version of the format."""
    return len(head) > 24 and head[4:8] == b"\0\0\0\0" and b"brain.Event:" in head[:64]


def read_events(stream: Stream, curves: Curves) -> None:
    """Add the scalars to the curves. Raises ValueError where the file is cut off or damaged."""
    for record in _records(stream):
        if len(record) <= SCALARS:
            _add(record, curves)


def _records(stream: Stream) -> Iterator[bytes]:
    buffer = _Buffer(stream)
    while head := buffer.take(12):
        if len(head) < 12:
            raise ValueError("ends within a record")
        (length,) = struct.unpack("<Q", head[:8])
        if length > LONGEST:
            raise ValueError(f"has a record of {length:,} bytes: the file is damaged")
        data = buffer.take(length + 4)
        if len(data) < length + 4:
            raise ValueError("ends within a record: the training was cut off while it wrote")
        yield data[:-4]


class _Buffer:
    """Takes any number of bytes from a stream that is read in large blocks."""

    def __init__(self, stream: Stream) -> None:
        self._stream, self._held, self._position = stream, b"", 0

    def take(self, size: int) -> bytes:
        missing = self._position + size - len(self._held)
        if missing > 0:
            parts = [self._held[self._position :]]
            while missing > 0 and (data := self._stream.read(1 << 20)):
                parts.append(data)
                missing -= len(data)
            self._held, self._position = b"".join(parts), 0
        taken = self._held[self._position : self._position + size]
        self._position += len(taken)
        return taken


def _add(record: bytes, curves: Curves) -> None:
    step = 0
    row: dict[str, float] = {}
    for number, _, value in _fields(record):
        if number == 2 and isinstance(value, int):
            step = value
        elif number == 5 and isinstance(value, bytes):
            row.update(_scalars(value))
    if row and curves.wants(nonfinite=any(value != value for value in row.values())):
        curves.add(step, row)


def _scalars(summary: bytes) -> Iterator[tuple[str, float]]:
    for number, _, value in _fields(summary):
        if number != 1 or not isinstance(value, bytes):
            continue
        tag, scalar = "", None
        for field, wire, content in _fields(value):
            if field == 1 and isinstance(content, bytes):
                tag = content[:200].decode("utf-8", "replace").lower()
            elif field == 2 and wire == 5 and isinstance(content, bytes):
                (scalar,) = struct.unpack("<f", content)
            elif field == 8 and isinstance(content, bytes):
                scalar = _tensor(content)
        if scalar is not None:
            yield tag, scalar


def _tensor(tensor: bytes) -> float | None:
    """A tensor of one float (type 1): in its content, or as a list of floats."""
    for number, wire, value in _fields(tensor):
        if number in (4, 5) and isinstance(value, bytes) and len(value) == 4 and wire in (2, 5):
            scalar: float = struct.unpack("<f", value)[0]
            return scalar
    return None


def _fields(data: bytes) -> Iterator[Field]:
    """The fields of a message; ends quietly where the data is no such message."""
    position = 0
    for _ in range(MOST_FIELDS):
        key, position = _varint(data, position)
        if key is None:
            return
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, position = _varint(data, position)
            if value is None:
                return
            yield number, wire, value
            continue
        if wire == 2:
            length, position = _varint(data, position)
        else:
            length = {1: 8, 5: 4}.get(wire)
        if length is None or position + length > len(data):
            return
        yield number, wire, data[position : position + length]
        position += length


def _varint(data: bytes, position: int) -> tuple[int | None, int]:
    value = shift = 0
    while position < len(data) and shift < 64:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if not byte & 128:
            return value, position
        shift += 7
    return None, position

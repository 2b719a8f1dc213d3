"""The bytes of an optimizer's moments: whether every one is zero."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from doctor.checkpoint.dtypes import BITS
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.files import Source, prefetch
from doctor.checkpoint.io.open_files import OpenFiles
from doctor.checkpoint.optimizer_slots import AVERAGES, COMPENSATION, EIGHT_BIT, MOMENTS
from doctor.checkpoint.tensors import Entry, Part, Tensor

FIRST, WINDOW = 4 << 10, 64 << 10
"""Bytes of the first read of a moment, and of the reads after it while all is zero."""

TOTAL = 256 << 20
"""Bytes that are read of one optimizer's state."""

FLOATS = ("BF16", "F16", "F32", "F64")


def moments(entry: Entry) -> list[Tensor]:
    """The slots that show whether a gradient was received."""
    slots = [entry.slots[name] for name in MOMENTS if name in entry.slots]
    for name, scale in EIGHT_BIT:
        slot = entry.slots.get(name)
        if slot and slot.dtype not in FLOATS:
            slot = entry.slots.get(scale)
        if slot:
            slots.append(slot)
    return [slot for slot in slots if slot.dtype in FLOATS and slot.elements]


def moment_dtype(entry: Entry) -> str | None:
    """The dtype in which the first moment is kept, or an average of the weights."""
    for name in (*MOMENTS, "state1", *AVERAGES):
        if name in entry.slots:
            return entry.slots[name].dtype
    return None


def compensation_slot(entry: Entry) -> str:
    """The slot that keeps what rounding would lose, "" where there is none."""
    for name in COMPENSATION:
        slot = entry.slots.get(name)
        if slot and slot.elements and (name == "mantissa" or slot.dtype in FLOATS):
            return name
    return ""


@dataclass(slots=True)
class Reading:
    """Open files, and how much more may be read of them."""

    files: OpenFiles
    reads: int
    bytes_left: int = TOTAL
    unreadable: set[str] = field(default_factory=set)

    def source(self, file: str) -> Source | None:
        """None where the file cannot be opened."""
        if file in self.unreadable:
            return None
        try:
            return self.files.source(file)
        except CheckpointError:
            self.unreadable.add(file)
            return None

    def prefetch(self, tensors: Iterable[Tensor]) -> None:
        """Tell that the first bytes of these will be read."""
        ranges: dict[str, list[tuple[int, int]]] = {}
        for tensor in tensors:
            part = tensor.ranges[0]
            end = min(part.end, part.begin + FIRST)
            ranges.setdefault(part.file, []).append((part.begin, end))
        for file, spans in ranges.items():
            if source := self.source(file):
                prefetch(source, spans)

    def read(self, part: Part, size: int) -> bytes | None:
        """Bytes from the start of a part; None where they may not or cannot be read."""
        source = self.source(part.file)
        if source is None or size > self.bytes_left or not self.reads:
            return None
        self.bytes_left, self.reads = self.bytes_left - size, self.reads - 1
        try:
            data = source.read(size, part.begin)
        except CheckpointError:
            return None
        return data if len(data) == size else None

    def is_zero(self, tensor: Tensor) -> bool | None:
        """Whether every element is 0.0; None where that is not known."""
        for part in tensor.ranges:
            begin, size = part.begin, FIRST
            while begin < part.end:
                size = min(size, part.end - begin)
                data = self.read(Part(part.file, begin, part.end), size)
                if data is None:
                    return None
                if not all_zero(data, tensor.dtype):
                    return False
                begin, size = begin + size, WINDOW
        return True

    def entry_is_zero(self, entry: Entry) -> bool | None:
        """Whether all moments are zero. None: some are not known and the others are zero."""
        zeros = [self.is_zero(slot) for slot in moments(entry)[:1]]
        if zeros == [True]:
            zeros += [self.is_zero(slot) for slot in moments(entry)[1:]]
        if False in zeros:
            return False
        return True if zeros and None not in zeros else None

    def whole(self, tensor: Tensor, limit: int) -> bytes | None:
        """All bytes of a small tensor."""
        parts = tensor.ranges
        if sum(part.end - part.begin for part in parts) > limit:
            return None
        pieces = [self.read(part, part.end - part.begin) for part in parts]
        read_pieces = [data for data in pieces if data is not None]
        return b"".join(read_pieces) if len(read_pieces) == len(parts) else None


def all_zero(data: bytes, dtype: str) -> bool:
    """Whether every value is 0.0 or -0.0."""
    if not data.strip(b"\0"):
        return True
    width = BITS[dtype] // 8
    if data[width - 1 :: width].strip(b"\0\x80"):
        return False
    return not any(data[place::width].strip(b"\0") for place in range(width - 1))

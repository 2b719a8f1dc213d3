"""The header of a GGUF file, by ggml's description of the format (versions 2 and 3)."""

from __future__ import annotations

import itertools
import struct
from dataclasses import dataclass
from typing import Any

from doctor._util.units import shown
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.formats.gguf_config import gguf_config
from doctor.checkpoint.formats.safetensors import WIDEST, unreadable
from doctor.checkpoint.io.file_type import describe_file_type
from doctor.checkpoint.io.files import Source
from doctor.checkpoint.records import Problem
from doctor.checkpoint.tensors import Shard, Tensor

CHUNK = 1 << 20
"""Bytes read at once: a vocabulary alone takes several of them."""

MOST_TENSORS = 200_000
MOST_KEYS = 20_000
MOST_WORDS = 4_000_000
"""Words in the arrays of a header; a vocabulary with its merges has about half a million."""

LONGEST_NAME = 64
MOST_DIMENSIONS = 4

MOST_LETTERS = 200
"""Letters of a value that are kept."""

TEMPLATE = "tokenizer.chat_template"
"""How the keys of chat templates begin."""
LONGEST_TEMPLATE = 1 << 18

QUANTISED: dict[int, tuple[str, int, int]] = {
    2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 36), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50), 20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136), 29: ("IQ1_M", 256, 56), 34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17),
}  # fmt: skip
"""ggml's number of a type -> its name, elements in a block, bytes of a block."""

PLAIN: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4),
    27: ("I64", 1, 8), 28: ("F64", 1, 8), 30: ("BF16", 1, 2),
}  # fmt: skip
"""The same for types that are no blocks."""

TYPES = PLAIN | QUANTISED

_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B"}
_SCALARS |= {10: "Q", 11: "q", 12: "d"}


@dataclass(slots=True)
class _Cursor:
    """Reads on from a place in a file, a chunk at a time."""

    source: Source
    chunk: bytes = b""
    start: int = 0
    """Where the chunk begins in the file."""
    at: int = 0
    """The place in the chunk."""
    words: int = MOST_WORDS

    @property
    def place(self) -> int:
        return self.start + self.at

    def take(self, size: int) -> bytes:
        """The next bytes. Raises CheckpointError where the file ends before."""
        if size > len(self.chunk) - self.at:
            self.skip(0)
            self.start, self.at = self.place, 0
            self.chunk = self.source.read(max(size, CHUNK), self.start)
            if len(self.chunk) < size:
                raise CheckpointError(
                    "damaged", f"ends within its header, at byte {self.source.size:,}"
                )
        self.at += size
        return self.chunk[self.at - size : self.at]

    def skip(self, size: int) -> None:
        """Go on without reading. Raises CheckpointError where that leads out of the file."""
        self.at += size
        if self.place > self.source.size:
            raise CheckpointError("damaged", "has a header that is longer than the file")

    def number(self, form: str) -> Any:
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]

    def text(self, letters: int = MOST_LETTERS) -> str:
        size = self.number("Q")
        data = self.take(min(size, letters * 4)) if size <= self.source.size else b""
        self.skip(size - len(data))
        return data.decode("utf-8", "replace")[:letters]


def read_gguf(source: Source, file: str) -> Shard:
    """The tensors of one open file; what is wrong with it is in `problems`."""
    try:
        cursor = _Cursor(source)
        tensors, keys = _opening(cursor)
        values = _keys(cursor, keys)
        entries = [_entry(cursor) for _ in range(tensors)]
        placed = _placed(entries, cursor.place, _alignment(values), file)
    except CheckpointError as error:
        return unreadable(file, source.size, error)
    texts = {key: value for key, value in values.items() if isinstance(value, str)}
    template = "\n".join(text for key, text in texts.items() if key.startswith(TEMPLATE))
    metadata = {key: text[:MOST_LETTERS] for key, text in texts.items()}
    problems = tuple(_problems(placed, source.size, file))
    config = gguf_config(values)
    return Shard(file, source.size, placed, metadata, problems, config=config, template=template)


def _opening(cursor: _Cursor) -> tuple[int, int]:
    """How many tensors and keys there are."""
    first = cursor.source.read(24, 0)
    if not first.startswith(b"GGUF"):
        raise CheckpointError("damaged", f"is {describe_file_type(first) or 'no GGUF file'}")
    if len(first) < 24:
        raise CheckpointError("damaged", "ends within its header")
    version, tensors, keys = struct.unpack_from("<IQQ", first, 4)
    if not version & 0xFFFF:
        raise CheckpointError("not-inspectable", "is a big-endian GGUF file")
    if version not in (2, 3):
        raise CheckpointError("not-inspectable", f"is a GGUF file of version {version}")
    if tensors > MOST_TENSORS or keys > MOST_KEYS:
        text = f"says that it has {tensors:,} tensors and {keys:,} keys"
        raise CheckpointError(
            "damaged" if tensors * 24 > cursor.source.size else "not-inspectable", text
        )
    cursor.take(24)
    return tensors, keys


def _keys(cursor: _Cursor, count: int) -> dict[str, str | int]:
    """Texts and whole numbers by their keys, and the lengths of arrays."""
    values: dict[str, str | int] = {}
    for _ in range(count):
        key, kind = cursor.text(), cursor.number("I")
        if kind == _STRING:
            values[key] = cursor.text(
                LONGEST_TEMPLATE if key.startswith(TEMPLATE) else MOST_LETTERS
            )
        elif kind == _ARRAY:
            values[key] = _array(cursor, 0)
        else:
            value = cursor.number(_scalar(kind))
            if isinstance(value, int):
                values[key] = value
    return values


def _scalar(kind: int) -> str:
    form = _SCALARS.get(kind)
    if form is None:
        raise CheckpointError(
            "not-inspectable", f"has a value of type {kind}, which the doctor does not know"
        )
    return form


def _array(cursor: _Cursor, depth: int) -> int:
    """Passes over an array, and returns its length."""
    kind, count = cursor.number("I"), cursor.number("Q")
    if kind not in (_STRING, _ARRAY):
        cursor.skip(count * struct.calcsize(_scalar(kind)))
        return int(count)
    cursor.words -= count
    if cursor.words < 0 or depth > 3:
        raise CheckpointError(
            "not-inspectable", "has a header with more words than the doctor reads"
        )
    if count * 8 > cursor.source.size:
        raise CheckpointError("damaged", "has a header that is longer than the file")
    for _ in range(count):
        if kind == _ARRAY:
            _array(cursor, depth + 1)
        else:
            cursor.skip(int.from_bytes(cursor.take(8), "little"))
    return int(count)


def _alignment(values: dict[str, str | int]) -> int:
    alignment = values.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 0 < alignment <= 1 << 20 or alignment & 7:
        raise CheckpointError("damaged", "has a general.alignment that is no multiple of 8")
    return alignment


def _entry(cursor: _Cursor) -> tuple[str, tuple[int, ...], int, int]:
    """Name, shape as torch has it, type and offset."""
    size = cursor.number("Q")
    if not 0 < size < 4 * LONGEST_NAME:
        raise CheckpointError("damaged", f"names a tensor with {size:,} bytes")
    name = cursor.take(size).decode("utf-8", "replace")
    dimensions = cursor.number("I")
    if dimensions > MOST_DIMENSIONS:
        raise CheckpointError("damaged", f"gives {shown(name)} {dimensions:,} dimensions")
    lengths = struct.unpack(f"<{dimensions}Q", cursor.take(8 * dimensions))
    kind, offset = struct.unpack("<IQ", cursor.take(12))
    return name, tuple(reversed(lengths)), kind, offset


def _placed(
    entries: list[tuple[str, tuple[int, ...], int, int]], header: int, alignment: int, file: str
) -> tuple[Tensor, ...]:
    """The tensors with their bytes, which begin behind the header. Raises CheckpointError."""
    start = -(-header // alignment) * alignment
    tensors: list[Tensor] = []
    for name, shape, kind, offset in entries:
        elements = 1
        for length in shape:
            elements *= length
        if elements >= WIDEST or offset >= WIDEST:
            raise CheckpointError("damaged", f"gives {shown(name)} a shape or place beyond 2^63")
        if offset % alignment:
            raise CheckpointError(
                "damaged", f"puts {shown(name)} beside the alignment of {alignment} bytes"
            )
        dtype, block, size = TYPES.get(kind, (f"ggml type {kind}", 1, 0))
        row = shape[-1] if shape else 1
        if row % block:
            raise CheckpointError(
                "damaged", f"gives {shown(name)} rows of {row:,} elements in {dtype}"
            )
        begin = start + offset
        end = begin + elements // block * size
        tensors.append(Tensor(name, dtype, shape, elements, file, begin, end))
    tensors.sort(key=lambda tensor: (tensor.begin, tensor.end))
    if len({tensor.name for tensor in tensors}) < len(tensors):
        raise CheckpointError("damaged", "names a tensor twice in its header")
    return tuple(tensors)


def _problems(tensors: tuple[Tensor, ...], size: int, file: str) -> list[Problem]:
    problems = []
    unknown = sorted({tensor.dtype for tensor in tensors if tensor.dtype.startswith("ggml")})
    if unknown:
        text = f"has tensors of {', '.join(unknown[:3])}, whose size the doctor cannot check"
        problems.append(Problem(kind="note", file=shown(file), text=text))
    for before, after in itertools.pairwise(tensors):
        if after.begin < before.end:
            text = f"has bytes that overlap, in {shown(before.name)} and {shown(after.name)}"
            problems.append(Problem(kind="damaged", file=shown(file), text=text))
            break
    end = max((tensor.end for tensor in tensors), default=0)
    if end > size:
        text = f"is cut short: {size:,} of {end:,} bytes"
        problems.append(Problem(kind="damaged", file=shown(file), text=text))
    return problems

"""The header of a safetensors file, checked as the library checks it and by the format's text."""

from __future__ import annotations

import json
import math
from collections import Counter
from operator import attrgetter
from typing import Annotated, NoReturn, TypeGuard

import msgspec

from doctor._util.units import shown
from doctor.checkpoint.dtypes import BITS
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.file_type import describe_file_type
from doctor.checkpoint.io.files import Source
from doctor.checkpoint.records import Problem
from doctor.checkpoint.tensors import Shard, Tensor

LIMIT = 100_000_000
"""The longest header that the safetensors library reads."""

FIRST = 16 * 1024
"""Read at once: most headers are shorter."""

WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".distcp", ".metadata")
"""Names that files of weights have."""

LONG = 25_000_000
"""Bytes from which on a header has to look like one before it is parsed."""

WIDEST = 1 << 63

_METADATA = "__metadata__"
_BEGINNING = b'{"__metadata__":'

Size = Annotated[int, msgspec.Meta(ge=0, le=WIDEST - 1)]


class Listed(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """What a header says of one tensor; the offsets count from the end of the header."""

    dtype: str
    shape: Annotated[tuple[Size, ...], msgspec.Meta(max_length=64)]
    data_offsets: tuple[Size, Size]


_KNOWN = {dtype: (dtype, bits) for dtype, bits in BITS.items()}

_LISTED = msgspec.json.Decoder(dict[str, Listed])


def read_shard(source: Source, file: str) -> Shard:
    """The tensors of one open file; what is wrong with it is in `problems`."""
    size = source.size
    try:
        start, text = _text(source)
        metadata, header = _quickly(text) or _carefully(text)
        tensors = _tensors(header, file, start)
        tensors.sort(key=attrgetter("begin", "end"))
        end = _contiguous(tensors, start)
    except CheckpointError as error:
        return unreadable(file, size, error)
    problems = [*_unknown_dtypes(tensors, file), *_ending(end, size, file)]
    return Shard(file, size, tuple(tensors), metadata, tuple(problems))


def unreadable(file: str, size: int, error: CheckpointError) -> Shard:
    """A file without a readable header.

    Only a file whose name promises weights is at fault; any other is not inspectable.
    """
    if error.kind in ("damaged", "disguised") and not file.endswith(WEIGHTS):
        error = CheckpointError("not-inspectable", error.text)
    return Shard(file, size, problems=(error.problem(file),), readable=False)


def _text(source: Source) -> tuple[int, bytes]:
    """Where the data start, and the header before them."""
    size = source.size
    first = source.read(min(FIRST, size), 0)
    if len(first) < 8:
        _refuse(first, f"has {len(first)} bytes, a header needs 8" if first else "is empty")
    length = int.from_bytes(first[:8], "little")
    if length > size - 8:
        _refuse(first, f"says that its header has {length:,} bytes; the file has {size:,}")
    if not length or first[8:9] != b"{":
        _refuse(first, "has a header that does not begin with {")
    if length > LIMIT:
        text = (
            f"has a header of {length:,} bytes, over the safetensors library's limit of {LIMIT:,}"
        )
        raise CheckpointError("over-limit", text)
    if length <= len(first) - 8:
        return 8 + length, first[8 : 8 + length]
    return 8 + length, source.read(length, 8)


def _refuse(first: bytes, text: str) -> NoReturn:
    """Name the file's type if it is known, else what is wrong with the header."""
    if file_type := describe_file_type(first):
        raise CheckpointError("disguised", f"is {file_type}")
    raise CheckpointError("damaged", text)


def _quickly(text: bytes) -> tuple[dict[str, str], dict[str, Listed]] | None:
    """A header as the library writes it; None where it needs `_carefully`.

    The parser keeps the last of two entries of one name, so colons are counted: an entry has four
    at least, one after each key, and four times as many as entries are left if none came twice.
    """
    if not text.isascii():
        return None
    metadata: dict[str, str] = {}
    entries = text
    try:
        if text.startswith(_BEGINNING):
            metadata, entries = _after_metadata(text)
        header = _LISTED.decode(entries)
    except (ValueError, RecursionError, MemoryError, CheckpointError):
        return None
    if not header or _METADATA in header or entries.count(b":") != 4 * len(header):
        return None
    return metadata, header


def _after_metadata(text: bytes) -> tuple[dict[str, str], bytes]:
    """The metadata at the start, and the rest of the header without it."""
    skipped = len(_BEGINNING)
    metadata, end = _DECODER.raw_decode(text[skipped : skipped + FIRST].decode())
    rest = text[skipped + end :].lstrip(b" ")
    if not rest.startswith(b","):
        raise ValueError
    return _metadata(metadata), b"{" + rest[1:]


def _carefully(text: bytes) -> tuple[dict[str, str], dict[str, Listed]]:
    """Any header, or what is wrong with it."""
    header = _parse(text)
    metadata = _metadata(header.pop(_METADATA, None))
    return metadata, {name: _listed(name, entry) for name, entry in header.items()}


def _parse(text: bytes) -> dict[str, object]:
    if len(text) > LONG:
        _plausible(text)
    try:
        header = json.loads(text.decode(), object_pairs_hook=_once, parse_constant=_no_constant)
    except UnicodeDecodeError:
        raise CheckpointError("damaged", "has a header that is not UTF-8") from None
    except RecursionError:
        raise CheckpointError("damaged", "has a header that is nested too deeply") from None
    except MemoryError:
        raise CheckpointError(
            "damaged", "has a header that takes too much memory to read"
        ) from None
    except ValueError:
        raise CheckpointError("damaged", "has a header that is not valid JSON") from None
    if not isinstance(header, dict):
        raise CheckpointError("damaged", "has a header that is not a JSON object")
    return header


def _plausible(text: bytes) -> None:
    """An entry opens three brackets; lists of lists would take forty times their own length."""
    entries = text.count(b'"data_offsets"')
    if text.count(b"[") + text.count(b"{") > 6 * entries + 1000:
        raise CheckpointError(
            "damaged", f"has a header of {len(text):,} bytes that does not list tensors"
        )


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise CheckpointError("damaged", f"names {shown(twice)} twice in its header")
    return unique


def _no_constant(word: str) -> NoReturn:
    raise ValueError(word)


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_constant)


def _metadata(value: object) -> dict[str, str]:
    if value is None:
        return {}
    if isinstance(value, dict) and all(isinstance(text, str) for text in value.values()):
        return value
    raise CheckpointError("damaged", "has __metadata__ that does not map text to text")


def _tensors(header: dict[str, Listed], file: str, start: int) -> list[Tensor]:
    """Entries of a header that takes the file's first `start` bytes."""
    tensors = []
    shapes: dict[tuple[int, ...], tuple[int, ...]] = {}  # most tensors share their shape
    for name, listed in header.items():
        shape, (begin, end) = listed.shape, listed.data_offsets
        dtype, bits = _KNOWN.get(listed.dtype, (listed.dtype, 0))
        elements = math.prod(shape)
        if elements * bits != (end - begin) * 8 or not 0 < elements < WIDEST:
            elements = _fitting(name, listed)
        shape = shapes.setdefault(shape, shape)
        tensors.append(Tensor(name, dtype, shape, elements, file, start + begin, start + end))
    return tensors


def _fitting(name: str, listed: Listed) -> int:
    """How many elements a tensor has, if its bytes are as many as they take.

    Raises CheckpointError.
    """
    begin, end = listed.data_offsets
    if begin > end:
        raise CheckpointError("damaged", f"gives {shown(name)} offsets that are no range")
    elements = 1
    for length in listed.shape:
        elements *= length
        if elements >= WIDEST:
            raise CheckpointError(
                "damaged", f"gives {shown(name)} a shape of more than 2^63 elements"
            )
    bits = BITS.get(listed.dtype)
    room = (end - begin) * 8
    if elements > room if bits is None else elements * bits != room:
        sizes = f"{listed.dtype} with {elements:,} elements in {end - begin:,} bytes"
        raise CheckpointError(
            "damaged", f"gives {shown(name)} a size that does not fit its shape: {sizes}"
        )
    return elements


def _listed(name: str, entry: object) -> Listed:
    if not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name):
        raise CheckpointError("damaged", f"names a tensor with half a character: {shown(name)}")
    fields = entry if isinstance(entry, dict) else {}
    dtype, shape, offsets = fields.get("dtype"), fields.get("shape"), fields.get("data_offsets")
    if not (isinstance(dtype, str) and _sizes(shape) and _sizes(offsets)):
        raise CheckpointError(
            "damaged", f"describes {shown(name)} without a dtype, shape and offsets"
        )
    if len(offsets) != 2 or offsets[0] > offsets[1]:
        raise CheckpointError("damaged", f"gives {shown(name)} offsets that are no range")
    listed = Listed(dtype, tuple(shape), (offsets[0], offsets[1]))
    _fitting(name, listed)
    return listed


def _sizes(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(
        type(size) is int and 0 <= size < WIDEST for size in value
    )


def _contiguous(tensors: list[Tensor], start: int) -> int:
    """Where the last tensor ends. Raises CheckpointError for holes and overlaps."""
    ends: list[int] = [start, *map(attrgetter("end"), tensors)]
    if ends[:-1] == list(map(attrgetter("begin"), tensors)):
        return ends[-1]
    tensor, gap = next(
        (tensor, tensor.begin - end)
        for tensor, end in zip(tensors, ends, strict=False)
        if tensor.begin != end
    )
    problem = f"a hole of {gap:,} bytes before" if gap > 0 else "bytes that overlap, in"
    raise CheckpointError("damaged", f"has {problem} {shown(tensor.name)}")


def _unknown_dtypes(tensors: list[Tensor], file: str) -> list[Problem]:
    unknown = sorted({tensor.dtype for tensor in tensors} - BITS.keys())
    if not unknown:
        return []
    names = ", ".join(shown(dtype, 20) for dtype in unknown[:3])
    text = f"has tensors of dtype {names}, whose size the doctor cannot check"
    return [Problem(kind="unknown-dtype", file=shown(file), text=text)]


def _ending(end: int, size: int, file: str) -> list[Problem]:
    if end == size:
        return []
    text = (
        f"is cut short: {size:,} of {end:,} bytes"
        if size < end
        else (f"has {size - end:,} bytes behind its last tensor")
    )
    return [Problem(kind="damaged", file=shown(file), text=text)]

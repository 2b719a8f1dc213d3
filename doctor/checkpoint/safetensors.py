"""The header of a safetensors file, checked as the library checks it and by the format's text."""

from __future__ import annotations

import json
from typing import Any, NoReturn, TypeGuard

from doctor.checkpoint.disguise import disguise
from doctor.checkpoint.files import Source, Wrong
from doctor.checkpoint.names import shown
from doctor.checkpoint.tensors import BITS, Shard, Tensor
from doctor.sections import Problem

LIMIT = 100_000_000
"""The longest header that the safetensors library reads."""

FIRST = 64 * 1024
"""Read at once: most headers are shorter."""

LONG = 25_000_000
"""Bytes from which on a header has to look like one before it is parsed."""

WIDEST = 1 << 63


def read_shard(source: Source, file: str) -> Shard:
    """The tensors of one open file; what is wrong with it is in `problems`."""
    size = source.size
    try:
        start, text = _text(source)
        header = _parse(text)
        metadata = _metadata(header.pop("__metadata__", None))
        tensors = [_tensor(name, entry, file, start) for name, entry in header.items()]
        tensors.sort(key=lambda tensor: (tensor.begin, tensor.end))
        end = _contiguous(tensors, start)
    except Wrong as wrong:
        return unreadable(file, size, wrong)
    problems = [*_unknown_dtypes(tensors, file), *_ending(end, size, file)]
    return Shard(file, size, tuple(tensors), metadata, tuple(problems))


def unreadable(file: str, size: int, wrong: Wrong) -> Shard:
    """A file of which nothing is known but what is wrong.

    Only a file that calls itself .safetensors is at fault for not being one.
    """
    kind = wrong.kind
    if kind in ("damaged", "disguised") and not file.endswith(".safetensors"):
        kind = "not-inspectable"
    problem = Problem(kind=kind, file=shown(file), text=wrong.text)  # type: ignore[arg-type]
    return Shard(file, size, problems=(problem,), readable=False)


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
        raise Wrong("over-limit", text)
    if length <= len(first) - 8:
        return 8 + length, first[8 : 8 + length]
    return 8 + length, source.read(length, 8)


def _refuse(first: bytes, text: str) -> NoReturn:
    """Name what the file is, before anything is said of its header."""
    if known := disguise(first):
        raise Wrong("disguised", f"is {known}")
    raise Wrong("damaged", text)


def _parse(text: bytes) -> dict[str, Any]:
    if len(text) > LONG:
        _plausible(text)
    try:
        found = json.loads(text.decode(), object_pairs_hook=_once, parse_constant=_no_constant)
    except UnicodeDecodeError:
        raise Wrong("damaged", "has a header that is not UTF-8") from None
    except RecursionError:
        raise Wrong("damaged", "has a header that is nested too deeply") from None
    except MemoryError:
        raise Wrong("damaged", "has a header that takes too much memory to read") from None
    except ValueError:
        raise Wrong("damaged", "has a header that is not valid JSON") from None
    if not isinstance(found, dict):
        raise Wrong("damaged", "has a header that is not a JSON object")
    return found


def _plausible(text: bytes) -> None:
    """An entry opens three brackets; lists of lists would take forty times their own length."""
    entries = text.count(b'"data_offsets"')
    if text.count(b"[") + text.count(b"{") > 6 * entries + 1000:
        raise Wrong("damaged", f"has a header of {len(text):,} bytes that does not list tensors")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise Wrong("damaged", f"names {shown(twice)} twice in its header")
    return found


def _no_constant(word: str) -> NoReturn:
    raise ValueError(word)


def _metadata(found: Any) -> dict[str, str]:
    if found is None:
        return {}
    if isinstance(found, dict) and all(isinstance(value, str) for value in found.values()):
        return found
    raise Wrong("damaged", "has __metadata__ that does not map text to text")


def _tensor(name: str, entry: Any, file: str, start: int) -> Tensor:
    """One entry of the header; its offsets count from `start`."""
    dtype, shape, offsets = _fields(name, entry)
    elements = 1
    for length in shape:
        elements *= length
        if elements >= WIDEST:
            raise Wrong("damaged", f"gives {shown(name)} a shape of more than 2^63 elements")
    begin, end = offsets
    bits = BITS.get(dtype)
    room = (end - begin) * 8
    if elements > room if bits is None else elements * bits != room:
        said = f"{dtype} with {elements:,} elements in {end - begin:,} bytes"
        raise Wrong("damaged", f"gives {shown(name)} a size that does not fit its shape: {said}")
    return Tensor(name, dtype, tuple(shape), elements, file, start + begin, start + end)


def _fields(name: str, entry: Any) -> tuple[str, list[int], list[int]]:
    if not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name):
        raise Wrong("damaged", f"names a tensor with half a character: {shown(name)}")
    known = entry if isinstance(entry, dict) else {}
    dtype, shape, offsets = known.get("dtype"), known.get("shape"), known.get("data_offsets")
    if not (isinstance(dtype, str) and _sizes(shape) and _sizes(offsets)):
        raise Wrong("damaged", f"describes {shown(name)} without a dtype, shape and offsets")
    if len(offsets) != 2 or offsets[0] > offsets[1]:
        raise Wrong("damaged", f"gives {shown(name)} offsets that are no range")
    return dtype, shape, offsets


def _sizes(found: Any) -> TypeGuard[list[int]]:
    return isinstance(found, list) and all(
        type(size) is int and 0 <= size < WIDEST for size in found
    )


def _contiguous(tensors: list[Tensor], start: int) -> int:
    """Where the last tensor ends. Holes and overlaps are Wrong."""
    for tensor in tensors:
        if tensor.begin != start:
            gap = tensor.begin - start
            said = f"a hole of {gap:,} bytes before" if gap > 0 else "bytes that overlap, in"
            raise Wrong("damaged", f"has {said} {shown(tensor.name)}")
        start = tensor.end
    return start


def _unknown_dtypes(tensors: list[Tensor], file: str) -> list[Problem]:
    unknown = sorted({tensor.dtype for tensor in tensors} - BITS.keys())
    if not unknown:
        return []
    names = ", ".join(shown(dtype, 20) for dtype in unknown[:3])
    text = f"has tensors of dtype {names}, whose size the doctor cannot check"
    return [Problem(kind="note", file=shown(file), text=text)]


def _ending(end: int, size: int, file: str) -> list[Problem]:
    if end == size:
        return []
    said = (
        f"is cut short: {size:,} of {end:,} bytes"
        if size < end
        else (f"has {size - end:,} bytes behind its last tensor")
    )
    return [Problem(kind="damaged", file=shown(file), text=said)]

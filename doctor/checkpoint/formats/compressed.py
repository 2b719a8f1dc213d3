"""Files that are compressed as a whole: what of them can be unpacked, damaged ones included.

Programs that read such files hand on what lies before a damage, and all members in a row.
"""

from __future__ import annotations

import bz2
import lzma
import re
import zlib
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

UNPACKED = 32 * 1024 * 1024
"""Bytes that are unpacked at most: joblib compresses whole pickles."""

AT_ONCE = 4 * 1024
"""Bytes unpacked by one call: an error drops those of its call, and usual readers take 8 KiB."""

BYTEWISE = 64 * 1024
"""The beginning is fed byte by byte, as pickles that attack are short."""

MOST_MEMBERS = 10_000

MAGICS: dict[bytes, Callable[[], Any]] = {
    b"\x1f\x8b": lambda: zlib.decompressobj(31),
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ\0": lambda: lzma.LZMADecompressor(memlimit=4 * UNPACKED),
    b"\x5d\0\0": lambda: lzma.LZMADecompressor(memlimit=4 * UNPACKED),
    **{b"\x78" + level: zlib.decompressobj for level in (b"\x01", b"\x5e", b"\x9c", b"\xda")},
}
"""First bytes of what programs write around a pickle, and what unpacks it."""

_PADDING = re.compile(rb"\0*")

_WEAK = (b"\x78", b"\x5d")
"""Small numbers begin so, too: a file of which nothing can be unpacked is no compressed one."""


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The content of a compressed file, and why it is not all of it."""

    content: bytes
    incomplete: str = ""
    """To follow the file's name; "" where all was unpacked."""


def magic_of(first: bytes) -> bytes | None:
    """The entry of MAGICS that a file begins with."""
    return next((magic for magic in MAGICS if first.startswith(magic)), None)


def unpack(data: bytes, magic: bytes) -> Unpacked:
    """All members of a compressed file, up to UNPACKED bytes. Never raises."""
    content = bytearray()
    try:
        for piece in _pieces(data, magic):
            content += piece
            if len(content) >= UNPACKED:
                text = f"is compressed, and only its first {UNPACKED >> 20} MiB were unpacked"
                return Unpacked(bytes(content), text)
    except (zlib.error, OSError, EOFError, lzma.LZMAError, ValueError) as error:
        is_number = magic.startswith(_WEAK) and not content and "emory" not in str(error)
        text = "" if is_number else f"is compressed, and unpacking it breaks off: {error}"
        return Unpacked(bytes(content), text)
    return Unpacked(bytes(content))


def _pieces(data: bytes, magic: bytes) -> Iterator[bytes]:
    at = 0
    for _ in range(MOST_MEMBERS):
        if not data.startswith(magic, at):
            raise EOFError("other bytes follow")
        at = yield from _member(data, at, magic)
        padding = _PADDING.match(data, at)
        at = padding.end() if padding else at
        if at == len(data):
            return
    raise EOFError(f"it has more than {MOST_MEMBERS:,} members")


def _member(data: bytes, at: int, magic: bytes) -> Generator[bytes, None, int]:
    """What one member holds; returns where it ends."""
    member = MAGICS[magic]()
    while at < len(data):
        fed = data[at : at + (1 if at < BYTEWISE else AT_ONCE)]
        at += len(fed)
        full = True
        while full and not member.eof:
            piece = member.decompress(fed, AT_ONCE)
            yield piece
            full = len(piece) == AT_ONCE
            fed = getattr(member, "unconsumed_tail", b"")  # the others keep it themselves
        if member.eof:
            return at - len(member.unused_data)
    raise EOFError("it is cut short")

"""A byte stream as blocks of whole lines, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from doctor.log.lines import LONGEST

BLOCK = 1 << 21
"""As many bytes as are scanned ahead at once."""


class Stream(Protocol):
    """Anything that gives bytes, b"" at its end."""

    def read(self, size: int = -1, /) -> bytes: ...


def blocks(stream: Stream, size: int = BLOCK) -> Iterator[bytes]:
    """Blocks that end where a line ends, except for the last one.

    Of a line that exceeds a block only its first `LONGEST` bytes are passed on. Raises OSError,
    EOFError and the errors of a decompressor.
    """
    rest = b""
    skipping = False
    while data := stream.read(size):
        if skipping:
            data, skipping = _after_line(data)
        block = rest + data
        end = max(block.rfind(b"\n"), block.rfind(b"\r", 0, len(block) - 1)) + 1
        if end:
            rest = block[end:]
            yield block[:end]
        elif len(block) >= size:
            rest, skipping = block[:LONGEST], True
        else:
            rest = block
    if rest:
        yield rest


def _after_line(data: bytes) -> tuple[bytes, bool]:
    """The data from the end of its first line, and whether that line goes on."""
    ends = [place for place in (data.find(b"\n"), data.find(b"\r")) if place >= 0]
    return (data[min(ends) :], False) if ends else (b"", True)

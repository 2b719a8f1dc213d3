"""Which files a log consists of, and their bytes: plain, compressed, or from stdin."""

from __future__ import annotations

import codecs
import gzip
import os
import re
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, cast

from doctor._util.errors import UserError, reason_of
from doctor._util.streams import without_waiting
from doctor.log.zstd import ZstdStream

STDIN = "-"
MOST_FILES = 20_000
"""Files of a directory that are read."""
DEEPEST = 8
"""Levels of directories below the one that is named."""
HEAD = 4096
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
"""What PowerShell's > writes first."""
SKIPPED = re.compile(
    r"\.(?:safetensors|pt|pth|bin|ckpt|gguf|so|py|pyc|png|jpe?g|zip|tar|tgz|arrow|parquet|npy|npz"
    r"|h5|whl|mp4|wav)$",
    re.IGNORECASE,
)
"""Names in a directory that are no logs."""
BINARY = 0.3
"""Share of NULs and other control characters in the head of a file that is no text."""


def files_of(path: str) -> list[str]:
    """The file, or the files below the directory in the order of their names. Raises UserError."""
    if path == STDIN:
        if sys.stdin.isatty():
            raise UserError("- (stdin) is a terminal; pipe a log into the command")
        return [path]
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: {reason_of(error)}") from None
    if not stat.S_ISDIR(mode):
        return [path]
    files = sorted(_below(Path(path), 0), key=_natural)[: MOST_FILES + 1]
    if not files:
        raise UserError(f"{path} has no log files; name the directory that the logs are in")
    if len(files) > MOST_FILES:
        raise UserError(f"{path} has more than {MOST_FILES:,} files; name a directory of one run")
    return files


def _natural(path: str) -> list[str | int]:
    """Numbers by their value: rank 2 before rank 10."""
    parts = re.split(r"(\d{1,18})", path)
    return [int(part) if index % 2 else part for index, part in enumerate(parts)]


def _below(directory: Path, depth: int) -> Iterator[str]:
    try:
        entries = list(os.scandir(directory))
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            if depth < DEEPEST:
                yield from _below(Path(entry.path), depth + 1)
        elif entry.is_file() and not SKIPPED.search(entry.name) and entry.stat().st_size:
            yield entry.path


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """The bytes of a log, decompressed as they are read. Raises OSError and UserError."""
    if path == STDIN:
        yield cast(BinaryIO, sys.stdin.buffer)
        return
    with opened_file(path) as file:
        mode = os.fstat(file.fileno()).st_mode
        if stat.S_ISFIFO(mode):
            os.set_blocking(file.fileno(), True)
            yield file
            return
        if not stat.S_ISREG(mode):
            raise OSError(f"{path} is neither a regular file nor a pipe")
        head = file.read(4)
        file.seek(0)
        yield _decompressed(file, head)


def opened_file(path: str) -> BinaryIO:
    """The file as it is; a pipe without a writer is not waited for. Raises OSError."""
    return open(path, "rb", opener=without_waiting)


def is_compressed(head: bytes) -> bool:
    return head.startswith((GZIP, ZSTD))


def _decompressed(file: IO[bytes], head: bytes) -> BinaryIO:
    if head.startswith(GZIP):
        return cast(BinaryIO, _Salvaged(gzip.GzipFile(fileobj=file)))
    if head.startswith(UTF16):
        return cast(BinaryIO, codecs.EncodedFile(file, "utf-8", "utf-16", "replace"))
    if head == ZSTD:
        return cast(BinaryIO, ZstdStream(file))
    return cast(BinaryIO, file)


class _Salvaged:
    """A compressed file that was cut: all that can be unpacked, and then the error."""

    def __init__(self, file: gzip.GzipFile) -> None:
        self._file = file
        self._error: Exception | None = None

    def read(self, size: int) -> bytes:
        """At most `size` bytes, b"" at the end. Raises what reading raised after them."""
        if self._error:
            raise self._error
        parts: list[bytes] = []
        while size > 0:
            try:
                data = self._file.read1(size)
            except READ_ERRORS as error:
                if not parts:
                    raise
                self._error = error
                break
            if not data:
                break
            parts.append(data)
            size -= len(data)
        return b"".join(parts)


READ_ERRORS = (OSError, EOFError, zlib.error, ValueError)
"""What reading a damaged or vanishing file raises."""


def is_binary(head: bytes) -> bool:
    """Whether a file begins like something else than text."""
    if not head:
        return False
    controls = sum(byte < 9 or 14 <= byte < 27 for byte in head)
    return controls > BINARY * len(head)

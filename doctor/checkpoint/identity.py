"""Whether two machines see the same files, without reading them whole."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

SAMPLE = 64 << 10
"""Bytes at the head and at the tail of each file that are compared."""
MOST_FILES = 100_000


class Identity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The files at a path, by name, size, time and samples of their content."""

    files: int
    bytes: int
    digest: str


def identity(path: str) -> Identity:
    """Of a file, or of all regular files below a directory. Raises OSError."""
    digest, files, total = hashlib.sha256(), 0, 0
    for name, file in _files(Path(path)):
        status = file.stat()
        head, tail = _samples(file, status.st_size)
        fields = (name.encode("utf-8", "surrogateescape"), b"%d" % status.st_size)
        for part in (*fields, b"%d" % int(status.st_mtime), head, tail):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
        files += 1
        total += status.st_size
        if files >= MOST_FILES:
            break
    return Identity(files=files, bytes=total, digest=digest.hexdigest()[:32])


def _files(path: Path) -> Iterator[tuple[str, Path]]:
    """Names below the path and the files, in one order on all machines."""
    if not path.is_dir():
        yield path.name, path
        return
    for directory, names, files in os.walk(path, onerror=_raise):
        names.sort()
        for name in sorted(files):
            file = Path(directory) / name
            if file.is_file():
                yield str(file.relative_to(path)), file


def _raise(error: OSError) -> None:
    raise error


def _samples(file: Path, size: int) -> tuple[bytes, bytes]:
    """The head and the tail; a pipe that took the file's place is not waited for."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.pread(descriptor, SAMPLE, 0), os.pread(descriptor, SAMPLE, max(0, size - SAMPLE))
    finally:
        os.close(descriptor)

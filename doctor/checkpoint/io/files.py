"""Untrusted files: opened without blocking, read by pread, never mapped.

A `Directory` holds files beside each other, on a disk or at an address; a `Source` is the bytes of
one of them. Readers use only these two.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Protocol, TypeAlias

from doctor._util.units import shown
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.file_type import describe_file_type

Buffer: TypeAlias = bytearray | memoryview

ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)

KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class Source(Protocol):
    """The bytes of one file."""

    @property
    def size(self) -> int:
        """Bytes of the whole file, as they were when it was opened."""
        ...

    def read(self, size: int, offset: int) -> bytes:
        """Up to `size` bytes at `offset`; fewer where the file ends. Raises CheckpointError."""
        ...


class Directory(Protocol):
    """Files beside each other."""

    @property
    def address(self) -> str:
        """As the user would write it."""
        ...

    def names(self) -> list[str]:
        """What is directly inside, sorted; the names of directories end with a slash.

        Raises CheckpointError.
        """
        ...

    def open(self, name: str) -> AbstractContextManager[Source]:
        """One file. Raises CheckpointError; a pipe or a device is never waited for."""
        ...

    def exists(self, name: str) -> bool:
        """Whether something has that name, links followed."""
        ...

    def inside(self, name: str) -> Directory:
        """A directory in it."""
        ...


@dataclass(frozen=True, slots=True)
class LocalFile:
    """An open file on this machine."""

    descriptor: int
    size: int
    stamp: tuple[int, ...] = ()
    """Changes when the file is replaced or written to."""
    begin: int = 0
    """Where its bytes begin in the file that holds it: a zip stores its members whole."""

    def read_into(self, buffer: Buffer, offset: int) -> int:
        """Fill a buffer with what lies at `offset`; how many bytes, fewer where the file ends.

        Raises CheckpointError.
        """
        view, done = memoryview(buffer)[: max(0, self.size - offset)], 0
        offset += self.begin
        try:
            while done < len(view) and (
                got := os.preadv(self.descriptor, [view[done:]], offset + done)
            ):
                done += got
        except OSError as error:
            raise CheckpointError(
                "not-inspectable", f"cannot be read: {error.strerror or error}"
            ) from None
        return done

    def read(self, size: int, offset: int) -> bytes:
        """Up to `size` bytes at `offset`; fewer where the file ends. Raises CheckpointError."""
        parts: list[bytes] = []
        size, offset = min(size, max(0, self.size - offset)), offset + self.begin
        try:
            while size and (part := os.pread(self.descriptor, size, offset)):
                parts.append(part)
                size, offset = size - len(part), offset + len(part)
        except OSError as error:
            raise CheckpointError(
                "not-inspectable", f"cannot be read: {error.strerror or error}"
            ) from None
        return parts[0] if len(parts) == 1 else b"".join(parts)


@dataclass(frozen=True, slots=True)
class LocalDirectory:
    """A directory on this machine, or the files that a zip stores there."""

    path: Path
    members: tuple[tuple[str, int, int], ...] = ()
    """Of a zip: names, where their bytes begin, and how many there are."""

    @property
    def address(self) -> str:
        return str(self.path)

    def names(self) -> list[str]:
        """What is directly inside, sorted; the names of directories end with a slash.

        Raises CheckpointError.
        """
        if self.members:
            return sorted(name for name, *_ in self.members)
        try:
            with os.scandir(self.path) as entries:
                return sorted(entry.name + "/" * _is_directory(entry) for entry in entries)
        except (OSError, ValueError) as error:
            raise _refused(self.path, error) from None

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[LocalFile]:
        """A regular file. Raises CheckpointError.

        Its type is checked before it is opened, since opening a device can have side effects,
        and again after, since it may have been changed in between.
        """
        held = next((each for each in self.members if each[0] == name), None)
        if self.members and held is None:
            raise CheckpointError("missing", "is not in the archive")
        path = f"{self.path}" if held else f"{self.path}/{name}"
        try:
            _regular(os.stat(path))  # noqa: PTH116 - a Path takes as long as the call itself
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        except (OSError, ValueError) as error:
            raise _refused(Path(path), error) from None
        try:
            status = os.fstat(descriptor)
            _regular(status)
            stamp = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
            _, begin, size = held or ("", 0, status.st_size)
            yield LocalFile(descriptor, size, stamp, begin)
        finally:
            os.close(descriptor)

    def exists(self, name: str) -> bool:
        """Whether something has that name, links followed; True where access is denied."""
        if self.members:
            return any(name == each[0] for each in self.members)
        try:
            (self.path / name).stat()
        except ValueError:
            return False
        except OSError as error:
            return error.errno not in ABSENT
        return True

    def inside(self, name: str) -> LocalDirectory:
        return LocalDirectory(self.path / name.rstrip("/"))


def read_into(source: Source, buffer: Buffer, offset: int) -> int:
    """Fill a buffer from any source, without a copy where it is a file on Linux.

    Raises CheckpointError.
    """
    if isinstance(source, LocalFile) and hasattr(os, "preadv"):
        return source.read_into(buffer, offset)
    data = source.read(len(buffer), offset)
    buffer[: len(data)] = data
    return len(data)


def prefetch(source: Source, ranges: list[tuple[int, int]]) -> None:
    """Announce ranges (begin, end) to read; a remote file fetches them concurrently."""
    if fetch := getattr(source, "prefetch", None):
        fetch(ranges)


def prefetch_files(directory: Directory, names: list[str]) -> None:
    """Announce files to open; a remote directory looks them up concurrently."""
    if find := getattr(directory, "prefetch", None):
        find(names)


def _is_directory(entry: os.DirEntry[str]) -> bool:
    """Whether it is one; a link in a circle, or to where this user may not look, is none."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise CheckpointError("damaged", f"is {kind}, not a file")


def _refused(path: Path, error: OSError | ValueError) -> CheckpointError:
    if isinstance(error, ValueError):
        return CheckpointError("damaged", "has a name that no file can have")
    if error.errno in ABSENT:
        return CheckpointError("missing", _broken_link(path) or "is missing")
    return CheckpointError("not-inspectable", f"cannot be read: {error.strerror or error}")


def _broken_link(path: Path) -> str:
    """That a link leads nowhere, with its target; "" for what is no link."""
    try:
        target = str(path.readlink())
    except OSError:
        return ""
    text = f"is a link to a file that is not there, {shown(target, 200)}"
    name, beside = re.split(r"[/\\]", target)[-1], False
    with contextlib.suppress(OSError, ValueError):
        beside = name not in ("", path.name) and (path.parent / name).is_file()
    return f"{text}; {shown(name, 200)} lies beside it" if beside else text


def read_whole(directory: Directory, name: str, limit: int) -> bytes:
    """A file of at most `limit` bytes. Raises CheckpointError."""
    with directory.open(name) as source:
        if source.size > limit:
            text = f"is {source.size:,} bytes, over the {limit:,} that the doctor reads of it"
            raise CheckpointError("not-inspectable", text)
        return source.read(source.size, 0)


def read_json(directory: Directory, name: str, limit: int) -> dict[str, object]:
    """The object in a JSON file of at most `limit` bytes. Raises CheckpointError."""
    return json_object(read_whole(directory, name, limit))


def json_object(data: bytes) -> dict[str, object]:
    """The object in the text of a JSON file. Raises CheckpointError."""
    try:
        value = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError, MemoryError) as error:
        _not_json(data, error)
    if not isinstance(value, dict):
        raise CheckpointError("damaged", "is not a JSON object")
    return value


def _not_json(data: bytes, error: Exception) -> NoReturn:
    if file_type := describe_file_type(data):
        raise CheckpointError("disguised", f"is {file_type}")
    text = "nested too deeply" if isinstance(error, RecursionError) else "not valid JSON"
    raise CheckpointError("damaged", f"is {text}" if data else "is empty")

"""Reading files that others wrote, without waiting for a pipe or a device."""

from __future__ import annotations

import os
import stat

FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def read_regular(path: str, limit: int, *, follow: bool = True, offset: int = 0) -> bytes:
    """At most `limit` bytes of a regular file, from `offset`.

    Raises OSError, without `follow` also for a link.
    """
    return read_opened(os.open(path, FLAGS if follow else FLAGS | os.O_NOFOLLOW), limit, offset)


def read_opened(descriptor: int, limit: int, offset: int = 0) -> bytes:
    """The same of an opened file, which is closed. Raises OSError."""
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(0, "not a regular file")
        file.seek(offset)
        return file.read(limit)

"""Editing a file in a directory where others may write: no link is followed, nothing is half done.

All names are looked up in one opened directory, so that a directory which takes its place meanwhile
changes nothing there.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from doctor._util.errors import UserError
from doctor._util.regular_file import FLAGS, read_opened

MOST_COPIES = 100


def edit_file(path: Path, before: bytes, after: bytes, *, backup: bool) -> None:
    """Replace a regular file that still holds `before`, keeping its mode and owner.

    With `backup`, the old bytes stay beside it as NAME.orig or the next free number. Raises
    OSError, and UserError if the file changed meanwhile.
    """
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        descriptor = os.open(path.name, FLAGS | os.O_NOFOLLOW, dir_fd=directory)
        status = os.fstat(descriptor)
        if read_opened(descriptor, len(before) + 1) != before:
            raise UserError("it changed meanwhile")
        if backup:
            _copy(directory, path.name, before, status)
        temporary = _new_file(directory, after, status)
        try:
            os.rename(temporary, path.name, src_dir_fd=directory, dst_dir_fd=directory)
        except OSError:
            os.unlink(temporary, dir_fd=directory)
            raise
    finally:
        os.close(directory)


def _copy(directory: int, name: str, data: bytes, status: os.stat_result) -> None:
    """The copy appears with all of its bytes, and an existing one is never overwritten."""
    temporary = _new_file(directory, data, status)
    try:
        for number in range(MOST_COPIES):
            if _linked(directory, temporary, f"{name}.orig{number or ''}"):
                return
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=directory)
    raise UserError(f"there are {MOST_COPIES} copies of {name} already; remove some")


def _linked(directory: int, temporary: str, name: str) -> bool:
    """Give a file a second name; False where the name is taken."""
    try:
        os.link(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    except FileExistsError:
        return False
    except OSError:  # a file system without links
        with contextlib.suppress(FileNotFoundError):
            os.stat(name, dir_fd=directory, follow_symlinks=False)
            return False
        os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
    return True


def _new_file(directory: int, data: bytes, status: os.stat_result) -> str:
    """A complete file under a name that nothing takes for a script, with another's mode."""
    name = f".doctor-{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o600, dir_fd=directory)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            with contextlib.suppress(PermissionError):
                os.fchown(descriptor, status.st_uid, status.st_gid)
            os.fchmod(descriptor, status.st_mode & 0o777)
            os.fsync(descriptor)
    except OSError:
        os.unlink(name, dir_fd=directory)
        raise
    return name

"""Output files: checked before the run, then written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from pathlib import Path

from doctor._util.errors import UserError

PRIVATE, PRIVATE_DIRECTORY = 0o600, 0o700
"""Rights of what is not redacted: records and facts."""


def check_writable(path: Path, flag: str) -> None:
    """Raise UserError if `path` cannot be written."""
    if os.path.exists(path) and not os.path.isfile(path):  # noqa: PTH110, PTH113 - never raises
        raise UserError(f"{flag} {path} is not a regular file; name another")
    directory = Path(os.path.realpath(path)).parent
    if not os.access(directory, os.W_OK) or _too_long(path):
        raise UserError(f"{flag} {path} cannot be written; name a file in a writable directory")


def _too_long(path: Path) -> bool:
    try:
        os.lstat(path)
    except OSError as error:
        return error.errno == errno.ENAMETOOLONG
    return False


def atomic_write(
    path: Path, data: bytes, flag: str, *, private: bool = False, follow: bool = True
) -> None:
    """Write a whole file or none. Raises UserError.

    A private file can be read by its owner alone, whatever the umask and the file before it. A link
    that the user named leads to the file; in a directory where others may write, without `follow`,
    the file takes the link's place.
    """
    target = Path(os.path.realpath(path)) if follow else path
    temporary = target.with_name(f".doctor-{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        with os.fdopen(os.open(temporary, flags, PRIVATE if private else 0o666), "wb") as file:
            file.write(data)
        temporary.replace(target)
    except OSError as error:
        raise UserError(f"{flag} {path}: {error.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()

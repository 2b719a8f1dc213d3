"""Files that the user asked for: found to be writable before the run, written whole or not."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from pathlib import Path

from doctor._util.errors import UserError


def check_writable(path: Path, flag: str) -> None:
    """Find out before the run that `path` could not be written after it. Raises UserError."""
    if os.path.exists(path) and not os.path.isfile(path):  # noqa: PTH110, PTH113 - never raises
        raise UserError(f"{flag} {path} is there and is no file; name another")
    folder = Path(os.path.realpath(path)).parent
    if not os.access(folder, os.W_OK) or _too_long(path):
        raise UserError(f"{flag} {path} cannot be written; name a file in a writable folder")


def _too_long(path: Path) -> bool:
    try:
        os.lstat(path)
    except OSError as error:
        return error.errno == errno.ENAMETOOLONG
    return False


def atomic_write(path: Path, data: bytes, flag: str) -> None:
    """Write a whole file or none, through links. Raises UserError."""
    target = Path(os.path.realpath(path))
    draft = target.with_name(f".doctor-{secrets.token_hex(8)}")
    try:
        with draft.open("xb") as file:
            file.write(data)
        draft.replace(target)
    except OSError as error:
        raise UserError(f"{flag} {path}: {error.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()

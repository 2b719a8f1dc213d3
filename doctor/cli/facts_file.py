"""Facts files: read untrusted ones, write whole ones."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from doctor._util.atomic_write import atomic_write
from doctor._util.errors import UserError
from doctor.facts.facts import Facts, decode, encode

MAX_BYTES = 256 * 2**20


def read_facts(path: Path) -> Facts:
    """Facts from an untrusted file. Raises UserError."""
    try:
        with open(path, "rb", opener=_open_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UserError(f"--facts {path} is not a regular file")
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UserError(f"--facts {path}: {getattr(error, 'strerror', error)}") from None
    if len(data) > MAX_BYTES:
        raise UserError(f"--facts {path} exceeds the {MAX_BYTES >> 20} MiB limit")
    try:
        return decode(data)
    except ValueError as error:
        raise UserError(f"--facts {path}: {error}") from None


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def write_facts(facts: Facts, path: Path) -> None:
    """Write a whole file or none, through links. Raises UserError."""
    atomic_write(path, encode(facts), "--save-facts")

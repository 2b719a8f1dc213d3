"""Facts files, which are untrusted."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import BinaryIO

from doctor._util.errors import UserError, reason_of
from doctor._util.streams import without_waiting
from doctor.facts.facts import Facts, decode

MAX_BYTES = 256 * 2**20
STDIN = Path("-")


def read_facts(path: Path) -> Facts:
    """Facts from a file, a pipe or, for "-", stdin. Raises UserError."""
    name = "--facts - (stdin)" if path == STDIN else f"--facts {path}"
    try:
        data = _read(path, name)
    except (OSError, ValueError) as error:
        raise UserError(f"{name}: {reason_of(error)}") from None
    if len(data) > MAX_BYTES:
        raise UserError(f"{name} exceeds the {MAX_BYTES >> 20} MiB limit")
    if not data:
        raise UserError(f"{name} is empty; the command that writes it may have failed")
    try:
        return decode(data)
    except ValueError as error:
        raise UserError(f"{name}: {error}") from None


def _read(path: Path, name: str) -> bytes:
    """At most one byte more than the limit. Raises OSError, ValueError or UserError."""
    if path == STDIN:
        if sys.stdin.isatty():
            raise UserError(f"{name} is a terminal; pipe a facts file into the command")
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    with open(path, "rb", opener=without_waiting) as file:
        _check_kind(file, name)
        return file.read(MAX_BYTES + 1)


def _check_kind(file: BinaryIO, name: str) -> None:
    """A regular file, or a pipe, which is then waited for. Raises UserError for anything else."""
    mode = os.fstat(file.fileno()).st_mode
    if stat.S_ISFIFO(mode):
        os.set_blocking(file.fileno(), True)
    elif not stat.S_ISREG(mode):
        raise UserError(f"{name} is neither a regular file nor a pipe")

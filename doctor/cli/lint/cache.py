"""Hits of files that were linted before, by content: for hooks, which lint the same files often."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from doctor._util.errors import UserError
from doctor.checks.script import table
from doctor.checks.script.lint import Hit
from doctor.script import read

Entry = tuple[list[Hit], str]
"""The hits of a file, and why no rule is for it."""
LIMIT = 20_000
"""Entries after which the older half is removed. Our own number."""
OWN = re.compile(r"[0-9a-f]{64}|\.[0-9a-f]{64}\.\d+")
"""Names of entries, and of those that a killed process left half written."""


class LintCache:
    """`doctor-lint` in a directory that the user named. An entry that cannot be read is as none."""

    def __init__(self, directory: str, *circumstances: object) -> None:
        self.directory = Path(directory) / "doctor-lint"
        self.circumstances = repr((_code(), circumstances)).encode()
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"--cache {directory}: {error.strerror}") from None

    def key(self, path: str, data: bytes, *more: object) -> str:
        """Of everything that decides the hits of a file."""
        parts = (self.circumstances, path.encode("utf-8", "surrogateescape"), repr(more).encode())
        digest = hashlib.sha256(data)
        for part in parts:
            digest.update(b"\0" + part)
        return digest.hexdigest()

    def get(self, key: str) -> Entry | None:
        try:
            entry: Entry = msgspec.json.decode((self.directory / key).read_bytes(), type=Entry)
            return entry
        except (OSError, msgspec.MsgspecError):
            return None

    def put(self, key: str, hits: list[Hit], unjudged: str) -> None:
        """Write whole or not at all; a full or read-only disk is no reason to fail."""
        target = self.directory / key
        part = self.directory / f".{key}.{os.getpid()}"
        try:
            part.write_bytes(msgspec.json.encode((hits, unjudged)))
            part.replace(target)
        except OSError:
            _remove(part)

    def trim(self, limit: int = LIMIT) -> None:
        """Remove the older half of a cache of more than `limit` entries, and no other file."""
        try:
            entries = [each for each in self.directory.iterdir() if OWN.fullmatch(each.name)]
        except OSError:
            return
        if len(entries) > limit:
            for entry in sorted(entries, key=_age)[: len(entries) // 2]:
                _remove(entry)


def _remove(path: Path) -> None:
    with suppress(OSError):  # a directory, a read-only disk, or removed by another process
        path.unlink()


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _code() -> list[tuple[str, int]]:
    """The files of the rules and the reader, with their times: another version is another key."""
    folders = [Path(str(each.__file__)).parent for each in (table, read)]
    return [(path.name, path.stat().st_mtime_ns) for path in _sources(folders)]


def _sources(folders: Iterable[Path]) -> list[Path]:
    return sorted(path for folder in folders for path in folder.rglob("*.py"))

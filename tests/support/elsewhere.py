"""A folder of files that are on no disk."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Elsewhere:
    """A folder of one or more files that are on no disk."""

    files: dict[str, bytes]
    address: str = "memory://there"

    def names(self) -> list[str]:
        return sorted(self.files)

    @contextlib.contextmanager
    def open(self, name: str) -> Iterator[Bytes]:
        yield Bytes(self.files[name])

    def exists(self, name: str) -> bool:
        return name in self.files

    def inside(self, name: str) -> Elsewhere:
        return self


@dataclass(frozen=True)
class Bytes:
    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)

    def read(self, size: int, offset: int) -> bytes:
        return self.data[offset : offset + size]

"""Logs that zstd compressed: Python 3.14 reads them, before that the package zstandard."""

from __future__ import annotations

import importlib
from typing import IO, Any

PIECE = 1 << 10
"""Compressed bytes that are read at once: zstd makes at most 32 MiB of them."""
MISSING = "zstd needs Python 3.14 or: python -m pip install zstandard"


class ZstdStream:
    """The decompressed bytes of a file of one or more frames."""

    def __init__(self, file: IO[bytes]) -> None:
        """Raises OSError if nothing is installed that reads zstd."""
        self._file = file
        self._package = _package()
        self._frame = self._begin()
        self._has_begun = False
        self._pieces = b""

    def _begin(self) -> Any:
        if hasattr(self._package, "ZstdDecompressor") and hasattr(self._package, "ZstdFile"):
            return self._package.ZstdDecompressor()
        return self._package.ZstdDecompressor(max_window_size=1 << 27).decompressobj()

    def read(self, size: int = -1, /) -> bytes:
        """At most so many bytes, b"" at the end. Raises OSError and EOFError for damaged files."""
        while not self._pieces:
            data = self._frame.unused_data if self._frame.eof else b""
            data = data or self._file.read(PIECE)
            if not data:
                if self._has_begun and not self._frame.eof:
                    raise EOFError("ends within a compressed frame")
                return b""
            if self._frame.eof:
                self._frame = self._begin()
            self._has_begun = True
            try:
                self._pieces = self._frame.decompress(data)
            except self._package.ZstdError as error:
                raise OSError(f"is damaged: {error}") from None
        size = len(self._pieces) if size < 0 else size
        data, self._pieces = self._pieces[:size], self._pieces[size:]
        return data


def _package() -> Any:
    for name in ("compression.zstd", "zstandard"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise OSError(MISSING)

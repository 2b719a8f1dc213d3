"""Files of one directory that stay open while their tensors are read."""

from __future__ import annotations

import contextlib

from doctor.checkpoint.io.files import Directory, Source

MOST_OPEN = 64
"""Files that are open at the same time."""


class OpenFiles(contextlib.ExitStack):
    """Opens files on first use and keeps them open, at most MOST_OPEN of them."""

    def __init__(self, directory: Directory) -> None:
        super().__init__()
        self._directory = directory
        self._sources: dict[str, Source] = {}

    def source(self, file: str) -> Source:
        """The file of that name. Raises CheckpointError."""
        if file not in self._sources:
            if len(self._sources) >= MOST_OPEN:
                self.close()
                self._sources.clear()
            self._sources[file] = self.enter_context(self._directory.open(file))
        return self._sources[file]

"""Directories and files of any file system that fsspec knows, other than plain HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.remote_errors import remote_errors
from doctor.checkpoint.io.remote_files import RemoteEntry


@dataclass(frozen=True)
class FsspecStore:
    """A file system of fsspec, reached by its scheme."""

    scheme: str
    filesystem: Any

    @cached_property
    def _fetch_options(self) -> dict[str, str]:
        """Keeps fsspec's own file objects from reading five megabytes ahead."""
        from fsspec.spec import AbstractFileSystem

        own = type(self.filesystem).cat_file is not AbstractFileSystem.cat_file
        return {} if own else {"cache_type": "none"}

    def is_directory(self, path: str) -> bool:
        try:
            with remote_errors(self.scheme):
                return bool(self.filesystem.info(path)["type"] == "directory")
        except CheckpointError as error:
            if error.kind == "missing":
                return False
            raise

    def names(self, path: str) -> list[str]:
        with remote_errors(self.scheme):
            entries = self.filesystem.ls(path, detail=True)
            return sorted(
                str(entry["name"]).rstrip("/").rpartition("/")[2]
                + "/" * (entry["type"] == "directory")
                for entry in entries
                if str(entry["name"]).rstrip("/") != path
            )

    def find(self, path: str) -> RemoteEntry:
        with remote_errors(self.scheme):
            info = self.filesystem.info(path)
        if info["type"] != "file":
            raise CheckpointError("damaged", "is a directory, not a file")
        if not isinstance(info.get("size"), int):
            raise CheckpointError("not-inspectable", "cannot be read: its size is not reported")

        def fetch(begin: int, end: int) -> bytes:
            with remote_errors(self.scheme):
                data = self.filesystem.cat_file(path, start=begin, end=end, **self._fetch_options)
                return bytes(data)

        return RemoteEntry(info["size"], fetch)

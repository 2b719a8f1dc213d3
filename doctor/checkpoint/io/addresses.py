"""Checkpoints at an address: https://, s3://, gs://, hf:// and any other scheme of fsspec.

Files are read by byte ranges and never as a whole: the header of a file of gigabytes takes one or
two requests. Secrets in an address never appear in a message.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from doctor._util.errors import UserError
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.files import Directory, LocalDirectory
from doctor.checkpoint.io.http_ranges import locate_web
from doctor.checkpoint.io.remote_errors import remote_errors
from doctor.checkpoint.io.remote_files import RemoteDirectory, RemoteEntry
from doctor.checkpoint.io.urls import ADDRESS, is_address, redact_url


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


def check_exists(path: str, flag: str) -> None:
    """A path on this machine must exist; an address is opened later. Raises UserError."""
    if is_address(path):
        _check_scheme(path, flag)
    elif not os.path.lexists(path):
        raise UserError(f"{flag} {path} does not exist")


def _check_scheme(address: str, flag: str) -> None:
    """Raise UserError for a scheme that fsspec does not know, if it is installed."""
    match = ADDRESS.match(address)
    scheme = match["scheme"].lower() if match else ""
    if scheme in ("file", "local", "http", "https") or (match and match["chain"]):
        return
    try:
        from fsspec.registry import known_implementations, registry
    except ImportError:
        return
    if scheme not in known_implementations and scheme not in registry:
        raise UserError(
            f"{flag} {redact_url(address)}: unknown scheme {scheme}://; addresses begin with "
            "https://, s3://, gs:// or hf://"
        )


def locate(address: str) -> tuple[Directory, str]:
    """The directory at an address, and the name of the file in it ("" for the directory itself).

    The directory's own `address` has no secrets. Raises CheckpointError.
    """
    match = ADDRESS.match(address)
    if match is None:
        raise CheckpointError("missing", "is not an address")
    scheme = match["scheme"].lower()
    web = scheme in ("http", "https")
    if match["chain"] or ("::" in address and not web):
        text = "is a chain of addresses (::), name the last one alone"
        raise CheckpointError("not-inspectable", text)
    if scheme in ("file", "local"):
        return _local(Path(unquote(match["rest"])))
    if web:
        store, path, name = locate_web(address)
        return RemoteDirectory(redact_url(address.removesuffix(name)), store, path), name
    return _with_fsspec(scheme, address)


def _local(path: Path) -> tuple[Directory, str]:
    if path.is_dir():
        return LocalDirectory(path), ""
    return LocalDirectory(path.parent), path.name


def _with_fsspec(scheme: str, address: str) -> tuple[Directory, str]:
    with remote_errors(scheme):
        from fsspec.core import url_to_fs

        filesystem, path = url_to_fs(address)
    store = FsspecStore(scheme, filesystem)
    whole = str(path).rstrip("/")
    if store.is_directory(whole):
        return RemoteDirectory(redact_url(address).rstrip("/"), store, whole), ""
    parent, _, name = whole.rpartition("/")
    return RemoteDirectory(redact_url(address).rpartition("/")[0], store, parent), name

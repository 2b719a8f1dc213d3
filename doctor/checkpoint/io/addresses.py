"""Checkpoints at an address: https://, s3://, gs://, hf:// and all else that fsspec knows.

Files are read by ranges of bytes and never as a whole: the header of a file of gigabytes takes one
or two requests. What is secret in an address is never part of what is told of it.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from doctor._util.errors import UserError
from doctor.checkpoint.io.files import Folder, LocalFolder, Wrong
from doctor.checkpoint.io.remote_files import Found, RemoteFolder

_ADDRESS = re.compile(
    r"(?P<chain>(?:[A-Za-z]\w+::)*)(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+)://(?P<rest>.*)", re.DOTALL
)
_INSIDE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://[^\s'\"<>]+")
_QUERY = re.compile(r"[?&][^\s'\"<>=]+=[^\s'\"<>]*")

PACKAGES = {
    "http": "fsspec and aiohttp (pip install 'preflight-doctor[remote]')",
    "https": "fsspec and aiohttp (pip install 'preflight-doctor[remote]')",
    "s3": "s3fs (pip install s3fs)",
    "gs": "gcsfs (pip install gcsfs)",
    "gcs": "gcsfs (pip install gcsfs)",
    "hf": "huggingface_hub (pip install huggingface_hub)",
    "az": "adlfs (pip install adlfs)",
    "abfs": "adlfs (pip install adlfs)",
}


def is_address(text: str) -> bool:
    """Whether it is an address and no path: it begins with a scheme and ://."""
    return _ADDRESS.match(text) is not None


def there(path: str, flag: str) -> None:
    """A path on this machine has to exist; an address is asked later. Raises UserError."""
    if not is_address(path) and not os.path.lexists(path):
        raise UserError(f"{flag} {path} does not exist")


def redacted(text: str) -> str:
    """An address as it may be told: without user, password, query and fragment. Paths stay."""
    match = _ADDRESS.match(text)
    if match is None:
        return text
    rest = match["rest"]
    place, slash, path = rest.partition("/")
    kept = re.split(r"[?#]", place.rpartition("@")[2] + slash + path, maxsplit=1)[0]
    if match["scheme"].lower() == "hf":  # hf://org/model@revision holds an @ that is no secret
        kept = re.split(r"[?#]", rest, maxsplit=1)[0]
    return f"{match['scheme']}://{kept}"


def clean(text: str) -> str:
    """A text in which every address is redacted, and queries that stand alone are left out."""
    return _QUERY.sub("", _INSIDE.sub(lambda found: redacted(found[0]), text))


def said(error: BaseException) -> str:
    """An error's first line, cut, with every address in it redacted."""
    lines = str(error).strip().splitlines()
    text = clean(lines[0]) if lines else ""
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__


def locate(address: str) -> tuple[Folder, str]:
    """The folder at an address and the file in it that is meant, "" for the folder. Raises Wrong.

    Its `address` has no secrets.
    """
    match = _ADDRESS.match(address)
    if match is None:
        raise Wrong("missing", "is no address")
    scheme = match["scheme"].lower()
    web = scheme in ("http", "https")
    if match["chain"] or ("::" in address and not web):
        raise Wrong("not-inspectable", "is a chain of addresses (::), name the last one alone")
    if scheme in ("file", "local"):
        from urllib.parse import unquote

        return _local(Path(unquote(match["rest"])))
    if web:
        from doctor.checkpoint.io.http_ranges import locate_web

        store, path, name = locate_web(address)
        return RemoteFolder(redacted(address.removesuffix(name)), store, path), name
    return _elsewhere(scheme, address)


def _local(path: Path) -> tuple[Folder, str]:
    if path.is_dir():
        return LocalFolder(path), ""
    return LocalFolder(path.parent), path.name


def _elsewhere(scheme: str, address: str) -> tuple[Folder, str]:
    with failures(scheme):
        from fsspec.core import url_to_fs

        filesystem, path = url_to_fs(address)
    store = Fsspec(scheme, filesystem)
    whole = str(path).rstrip("/")
    if store.is_folder(whole):
        return RemoteFolder(redacted(address).rstrip("/"), store, whole), ""
    parent, _, name = whole.rpartition("/")
    return RemoteFolder(redacted(address).rpartition("/")[0], store, parent), name


@contextlib.contextmanager
def failures(scheme: str) -> Iterator[None]:
    """Whatever goes wrong far away, as one line."""
    try:
        yield
    except Wrong:
        raise
    except ImportError as error:
        needs = PACKAGES.get(scheme, f"a package that is not installed ({said(error)})")
        raise Wrong("not-inspectable", f"cannot be read: {scheme}:// needs {needs}") from None
    except FileNotFoundError:
        raise Wrong("missing", "is missing") from None
    except PermissionError:
        raise Wrong("not-inspectable", "cannot be read: access is denied") from None
    except TimeoutError:
        raise Wrong("not-inspectable", "cannot be read: no answer in time") from None
    except Exception as error:  # libraries of clouds raise kinds of their own
        if "NotFound" in type(error).__name__:
            raise Wrong("missing", f"is missing ({said(error)})") from None
        raise Wrong("not-inspectable", f"cannot be read: {said(error)}") from None


@dataclass(frozen=True)
class Fsspec:
    """A file system of fsspec that is not plain HTTP."""

    scheme: str
    filesystem: Any

    @cached_property
    def _exact(self) -> dict[str, str]:
        """Keep fsspec's own file objects from reading five megabytes ahead."""
        from fsspec.spec import AbstractFileSystem

        own = type(self.filesystem).cat_file is not AbstractFileSystem.cat_file
        return {} if own else {"cache_type": "none"}

    def is_folder(self, path: str) -> bool:
        try:
            with failures(self.scheme):
                return bool(self.filesystem.info(path)["type"] == "directory")
        except Wrong as wrong:
            if wrong.kind == "missing":
                return False
            raise

    def names(self, path: str) -> list[str]:
        with failures(self.scheme):
            entries = self.filesystem.ls(path, detail=True)
            return sorted(
                str(entry["name"]).rstrip("/").rpartition("/")[2]
                + "/" * (entry["type"] == "directory")
                for entry in entries
                if str(entry["name"]).rstrip("/") != path
            )

    def find(self, path: str) -> Found:
        with failures(self.scheme):
            info = self.filesystem.info(path)
        if info["type"] != "file":
            raise Wrong("damaged", "is a folder, not a file")
        if not isinstance(info.get("size"), int):
            raise Wrong("not-inspectable", "cannot be read: its size is not told")

        def fetch(begin: int, end: int) -> bytes:
            with failures(self.scheme):
                data = self.filesystem.cat_file(path, start=begin, end=end, **self._exact)
                return bytes(data)

        return Found(info["size"], fetch)

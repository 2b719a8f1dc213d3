"""HTTP: only servers that answer ranges of bytes, since anything else would be a download."""

from __future__ import annotations

import os
import re
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.remote_errors import remote_errors
from doctor.checkpoint.io.remote_files import RemoteEntry

SECONDS = 60.0
"""For one request, however slowly the server sends."""

CONNECT_SECONDS = 15.0
SILENT_SECONDS = 20.0
"""Without a byte."""

_FILE = re.compile(
    r".+\.(?:safetensors|json|bin|pt|pth|ckpt|gguf|distcp|h5|msgpack|nemo|npz|onnx|pkl|metadata)"
)
_HUB = re.compile(
    r"/(?P<model>(?!api/|datasets/|spaces/)[^/]+/[^/]+)(?:/(?:blob|tree)/(?P<rest>.+))?/?"
)

T = TypeVar("T")


def locate_web(address: str) -> tuple[Web, str, str]:
    """How to reach an address, the path of its directory, and a file's name or "".

    Raises CheckpointError.
    """
    try:
        parts = urlsplit(address)
        host = parts.hostname
    except ValueError:
        host = None
    if not host:
        raise CheckpointError("missing", "is no address: it names no host")
    path = _weights(host, unquote(parts.path))
    parent, _, name = path.rpartition("/")
    web = Web(parts.scheme, parts.netloc, parts.query)
    if _FILE.fullmatch(name) or name == ".metadata":
        return web, parent, name
    return web, path.rstrip("/"), ""


def _weights(host: str, path: str) -> str:
    """On the Hugging Face Hub the files themselves, where their page was named."""
    if host == "huggingface.co" and (page := _HUB.fullmatch(path)):
        return f"/{page['model']}/resolve/{page['rest'] or 'main'}"
    return path


@dataclass(frozen=True)
class Web:
    """A server, and what its addresses end with."""

    scheme: str
    netloc: str
    query: str

    def is_directory(self, path: str) -> bool:
        return not _FILE.fullmatch(path.rpartition("/")[2])

    def names(self, path: str) -> list[str] | None:
        """HTTP has no directories."""
        return None

    def find(self, path: str) -> RemoteEntry:
        """Request one byte: the response shows the size, and whether ranges are served."""
        url = self._url(path)
        first = _answer(url, 0, 1)

        def fetch(begin: int, end: int) -> bytes:
            got = _answer(url, begin, end)
            if (got.size, got.tag) != (first.size, first.tag):
                raise CheckpointError("not-inspectable", "was changed while it was read")
            return got.data

        return RemoteEntry(first.size, fetch)

    def _url(self, path: str) -> str:
        whole = quote(path, safe="/:@!$&'()*+,;=~")
        return urlunsplit((self.scheme, self.netloc, whole, self.query, ""))


@dataclass(frozen=True)
class _Response:
    size: int
    tag: str
    data: bytes


def _answer(url: str, begin: int, end: int) -> _Response:
    """The bytes from `begin` to before `end`. Raises CheckpointError."""
    with remote_errors(urlsplit(url).scheme):
        import asyncio

        import fsspec
        import fsspec.asyn

        filesystem = fsspec.filesystem(
            "http", client_kwargs={"trust_env": True, "auto_decompress": False}
        )

        async def request() -> _Response:
            session = await filesystem.set_session()
            return await asyncio.wait_for(_request(session, url, begin, end), SECONDS)

        return _run(filesystem.loop, request())


def _run(loop: Any, work: Coroutine[Any, Any, T]) -> T:
    import asyncio

    return asyncio.run_coroutine_threadsafe(work, loop).result()


async def _request(session: Any, url: str, begin: int, end: int) -> _Response:
    import aiohttp
    import yarl

    headers = {"Range": f"bytes={begin}-{end - 1}", "Accept-Encoding": "identity"}
    timeout = aiohttp.ClientTimeout(sock_connect=CONNECT_SECONDS, sock_read=SILENT_SECONDS)
    try:
        address = yarl.URL(url, encoded=True)
        async with session.get(address, headers=headers, timeout=timeout) as response:
            if response.status == 206:
                size = _size(response.headers, begin, end)
                data = await _body(response.content, min(end, size) - begin)
                return _Response(size, response.headers.get("ETag", ""), data)
            return _other(response)
    except aiohttp.ClientConnectorError as error:
        number = error.os_error.errno or 0
        why = os.strerror(number) if number > 0 else error.os_error.strerror or "not reached"
        host = urlsplit(url).hostname
        raise CheckpointError("not-inspectable", f"cannot be read: {host}: {why}") from None
    except (aiohttp.ClientPayloadError, aiohttp.ServerDisconnectedError):
        raise CheckpointError("not-inspectable", "cannot be read: the server ended early") from None


def _other(response: Any) -> _Response:
    """A response other than the requested range; its body is not read."""
    status = response.status
    if status == 416 and re.fullmatch(r"bytes \*/0", response.headers.get("Content-Range", "")):
        return _Response(0, response.headers.get("ETag", ""), b"")
    if status == 200 and response.headers.get("Content-Length") == "0":
        return _Response(0, response.headers.get("ETag", ""), b"")
    if status == 200:
        text = "cannot be read in parts: the server does not serve byte ranges; download it first"
        raise CheckpointError("not-inspectable", text)
    reason = "".join(c for c in (response.reason or "") if c.isprintable())[:60]
    if status in (404, 410):
        raise CheckpointError("missing", f"is missing ({status} {reason})")
    raise CheckpointError(
        "not-inspectable", f"cannot be read: the server answers {status} {reason}".rstrip()
    )


def _size(headers: Any, begin: int, end: int) -> int:
    """The size of the whole file, if these are the requested bytes."""
    content_range = re.fullmatch(
        r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})", headers.get("Content-Range", "")
    )
    if content_range is None:
        raise CheckpointError(
            "not-inspectable", "cannot be read: the server does not report its size"
        )
    start, last, size = (int(number) for number in content_range.groups())
    if start != begin or last + 1 != min(end, size):
        raise CheckpointError("not-inspectable", "cannot be read: the server sent another range")
    if headers.get("Content-Encoding", "identity") not in ("", "identity"):
        raise CheckpointError("not-inspectable", "cannot be read: the server sends it compressed")
    return size


async def _body(content: Any, length: int) -> bytes:
    """As many bytes as the range has; the rest is not read."""
    parts: list[bytes] = []
    while length > 0 and (part := await content.read(length)):
        parts.append(part)
        length -= len(part)
    return b"".join(parts)

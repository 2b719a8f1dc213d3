"""Another process that scans parts of files: it gets names and offsets, and returns offsets.

It ends when its standard input does, so it does not outlive the process that started it, and it
runs nothing but the scan.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from typing import IO

import msgspec

from doctor.log.grams import Gram
from doctor.log.lines import normalized
from doctor.log.opening import opened_file
from doctor.log.rows import Rows
from doctor.log.scan import Table

PIPE = 1 << 20
"""Bytes that a pipe should hold: the rows of a part, so that the process goes on at once."""
CODE = "import sys; sys.path[:] = {path!r}; from doctor.log.scan_process import main; main()"


class Request(msgspec.Struct, array_like=True, frozen=True):
    """Bytes of a file that are to be scanned."""

    path: str
    offset: int
    size: int


class Reply(msgspec.Struct, array_like=True, frozen=True):
    """The fields of `Rows`, as native 64-bit integers, and the bytes after normalizing."""

    size: int
    starts: bytes
    ends: bytes
    lines: bytes
    unclear: bytes
    newlines: int


class ScanProcess:
    """The process, and the numbers of the parts in its queue."""

    def __init__(self, grams: Sequence[Gram]) -> None:
        code = CODE.format(path=[entry for entry in sys.path if entry])
        self.queue: deque[int] = deque()
        self.has_failed = False
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", code],
            bufsize=0,  # a buffer could hold a reply that select() does not report
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the process that started it
        )
        assert self._process.stdin
        assert self._process.stdout
        self._requests, self._replies = self._process.stdin, self._process.stdout
        _enlarge(self._replies)
        self._send(list(grams))

    def fileno(self) -> int:
        return self._replies.fileno()

    def request(self, number: int, path: str, offset: int, size: int) -> None:
        """Put a part into the queue."""
        self.queue.append(number)
        self._send(Request(path, offset, size))

    def _send(self, message: object) -> None:
        with contextlib.suppress(OSError):  # a process that ended is noticed when it should reply
            _write(self._requests, msgspec.msgpack.encode(message))

    def receive(self) -> Iterator[tuple[int, tuple[int, Rows] | None]]:
        """The next result, once there is one to read; None for all parts if the process ended."""
        data = _read(self._replies)
        if data is None:
            self.has_failed = True
            self.close()
            while self.queue:
                yield self.queue.popleft(), None
            return
        reply = msgspec.msgpack.decode(data, type=Reply)
        starts, ends, lines, unclear = map(
            _numbers, (reply.starts, reply.ends, reply.lines, reply.unclear)
        )
        yield self.queue.popleft(), (reply.size, Rows(starts, ends, lines, unclear, reply.newlines))

    def close(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._requests, self._replies):
            with contextlib.suppress(OSError):
                pipe.close()


def main() -> None:
    """The process: the table first, then one part after the other, until the input ends."""
    requests, replies = sys.stdin.buffer, sys.stdout.buffer
    table = Table(msgspec.msgpack.decode(_read(requests) or b"", type=list[Gram]))
    while (data := _read(requests)) is not None:
        request = msgspec.msgpack.decode(data, type=Request)
        block = b""
        with contextlib.suppress(OSError), opened_file(request.path) as file:
            file.seek(request.offset)
            block = normalized(file.read(request.size))
        _write(replies, msgspec.msgpack.encode(_reply(len(block), table.rows(block))))


def _reply(size: int, rows: Rows) -> Reply:
    starts, ends, lines, unclear = (
        array("q", numbers).tobytes()
        for numbers in (rows.starts, rows.ends, rows.lines, rows.unclear)
    )
    return Reply(size, starts, ends, lines, unclear, rows.newlines)


def _write(pipe: IO[bytes], message: bytes) -> None:
    rest = memoryview(len(message).to_bytes(8, "little") + message)
    while rest:
        rest = rest[pipe.write(rest) :]
    pipe.flush()


def _read(pipe: IO[bytes]) -> bytes | None:
    """One message; None at the end."""
    size = _exactly(pipe, 8)
    return None if size is None else _exactly(pipe, int.from_bytes(size, "little"))


def _exactly(pipe: IO[bytes], size: int) -> bytes | None:
    """So many bytes; None where the pipe ends before."""
    data = bytearray()
    while len(data) < size:
        more = pipe.read(size - len(data))
        if not more:
            return None
        data += more
    return bytes(data)


def _numbers(data: bytes) -> Sequence[int]:
    return array("q", data).tolist()


def _enlarge(pipe: IO[bytes]) -> None:
    """Where the system allows it; a smaller pipe is slower, not wrong."""
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import fcntl

        fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, PIPE)

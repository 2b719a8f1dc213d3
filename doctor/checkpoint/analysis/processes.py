"""Items looked at by several processes: numpy's short calls make threads wait for each other.

Each process is a fork of this one and ends with it. It looks at every n-th item, and writes what it
found to a pipe of its own, encoded by msgspec.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from doctor._util.parent_death import die_with_parent
from doctor.checkpoint.analysis.workers import Progress, opened
from doctor.checkpoint.io.files import Directory
from doctor.checkpoint.io.open_files import OpenFiles

Item = TypeVar("Item")
Result = TypeVar("Result", bound=msgspec.Struct)
Look = Callable[[Item, Sequence[OpenFiles]], Result]

NUMBER = struct.Struct("<I")


def look_at_all(
    items: Sequence[Item],
    directories: Sequence[Directory],
    look: Look[Item, Result],
    kind: type[Result],
    processes: int,
    progress: Progress | None = None,
) -> Iterator[tuple[int, Result | str]]:
    """The number of each item and what `look` found, of type `kind`, as they come; in the place of
    what was found the reason why the process ended that was to look at it.

    `look` gets open files, one for each directory. What it raises ends its process.
    """
    if processes < 2 or not sys.platform.startswith("linux"):
        yield from _here(items, directories, look, progress)
        return
    readers, missing = _start(items, directories, look, processes), set(range(len(items)))
    try:
        for data in _answers(readers):
            number, answer = NUMBER.unpack_from(data)[0], data[NUMBER.size :]
            missing.discard(number)
            if progress is not None:
                progress(len(items) - len(missing), len(items))
            yield number, msgspec.msgpack.decode(answer, type=kind)
        reasons = [reader.end() for reader in readers]
        for number in sorted(missing):
            yield number, reasons[number % len(readers)] or "the process that read it ended early"
    finally:
        for reader in readers:
            reader.end(kill=True)


def _here(
    items: Sequence[Item],
    directories: Sequence[Directory],
    look: Look[Item, Result],
    progress: Progress | None,
) -> Iterator[tuple[int, Result]]:
    with opened(directories) as files:
        for number, item in enumerate(items):
            yield number, look(item, files)
            if progress is not None:
                progress(number + 1, len(items))


@dataclass(slots=True)
class _Reader:
    """The end of one process that this one has."""

    pid: int
    answers: int
    """A descriptor."""
    pending: bytearray = field(default_factory=bytearray)

    def end(self, *, kill: bool = False) -> str:
        """Wait for it; "" if it ended well or had been waited for."""
        if not self.pid:
            return ""
        if kill:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        os.close(self.answers)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.pid = 0
        return "" if code == 0 else f"the process that read it ended with code {code}"


def _start(
    items: Sequence[Item],
    directories: Sequence[Directory],
    look: Look[Item, Result],
    processes: int,
) -> list[_Reader]:
    readers, count = [], min(processes, len(items))
    for first in range(count):
        answers, answering = os.pipe()
        pid = os.fork()
        if not pid:
            _read(items, range(first, len(items), count), directories, look, answering)
        os.close(answering)
        readers.append(_Reader(pid, answers))
    return readers


def _read(
    items: Sequence[Item],
    numbers: Sequence[int],
    directories: Sequence[Directory],
    look: Look[Item, Result],
    answering: int,
) -> None:
    """In the fork: look at the items of these numbers."""
    code = 1
    try:
        die_with_parent()
        encode = msgspec.msgpack.Encoder().encode
        with opened(directories) as files, open(answering, "wb", buffering=0) as pipe:
            for number in numbers:
                data = NUMBER.pack(number) + encode(look(items[number], files))
                data = NUMBER.pack(len(data)) + data
                while data:
                    data = data[pipe.write(data) :]
        code = 0
    finally:
        os._exit(code)


def _answers(readers: Sequence[_Reader]) -> Iterator[bytes]:
    """What the processes write, until all have closed their pipes."""
    open_ones = {reader.answers: reader for reader in readers}
    while open_ones:
        for descriptor in select.select(list(open_ones), [], [])[0]:
            reader = open_ones[descriptor]
            part = os.read(descriptor, 1 << 16)
            if not part:
                del open_ones[descriptor]
            reader.pending += part
            while len(reader.pending) >= NUMBER.size:
                end = NUMBER.size + NUMBER.unpack_from(reader.pending)[0]
                if len(reader.pending) < end:
                    break
                data = bytes(reader.pending[NUMBER.size : end])
                del reader.pending[:end]
                yield data

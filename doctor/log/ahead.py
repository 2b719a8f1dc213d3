"""Large logs are scanned ahead of the reader, on the other processors.

A scan needs nothing but the bytes of its part, so parts are scanned in any order. What rows amount
to depends on the rows before them, so one process reads the rows of all parts in their order: the
log is the same with any number of processes.
"""

from __future__ import annotations

import contextlib
import os
import select
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from doctor._util.processors import usable_processors
from doctor.log.lines import normalized
from doctor.log.metrics.files import file_kind
from doctor.log.opening import HEAD, STDIN, is_binary, is_compressed, opened_file
from doctor.log.rows import Rows
from doctor.log.scan import Scanner
from doctor.log.scan_process import ScanProcess

PART = 1 << 21
"""Bytes of a part, before the next end of a line."""
LONGEST = 1 << 16
"""Bytes within which a line must end; a file with longer ones is read as a stream."""
WORTHWHILE = 32 << 20
"""Bytes of logs from which on another process saves more time than it takes to start."""
MOST_PROCESSES = 4
"""This one included: with more, the one that reads the rows is the slowest."""
QUEUED = 2
"""Parts that one process is scanning or has yet to scan."""
FURTHEST = 64
"""Parts between the reader and the last one that is scanned."""


@dataclass(frozen=True, slots=True)
class Part:
    """Whole lines of a file."""

    path: str
    offset: int
    size: int

    def read(self) -> bytes:
        """The part, normalized; less of it where the file was cut. Raises OSError."""
        with opened_file(self.path) as file:
            file.seek(self.offset)
            return normalized(file.read(self.size))


def parts_of(path: str) -> list[Part]:
    """The parts of a plain text; none of a small file, of other kinds, and where lines are long."""
    try:
        if path == STDIN or not stat.S_ISREG(Path(path).stat().st_mode):
            return []
        with opened_file(path) as file:
            size, head = os.fstat(file.fileno()).st_size, file.read(HEAD)
            plain = not is_compressed(head) and not is_binary(head)
            if size < PART or not plain or file_kind(path, head) != "text":
                return []
            cuts = [0]
            for near in range(PART, size - PART // 2, PART):
                file.seek(near)
                end = file.read(LONGEST).find(b"\n")
                if end < 0:
                    return []
                cuts.append(near + end + 1)
    except (OSError, ValueError):
        return []
    ends = [*cuts[1:], size]
    return [Part(path, start, end - start) for start, end in zip(cuts, ends, strict=True)]


class Ahead:
    """The parts of many files with their rows, one after the other."""

    def __init__(self, parts: Sequence[Part], scanner: Scanner, processes: int) -> None:
        self._parts, self._scanner = parts, scanner
        self._numbers = {part: number for number, part in enumerate(parts)}
        self._next = 0
        """The first part that nobody has scanned or is to scan."""
        self._rows: dict[int, tuple[int, Rows] | None] = {}
        """Part -> its bytes and its rows; None where the process failed."""
        self._processes = [ScanProcess(scanner.grams) for _ in range(processes)]

    def read(self, part: Part) -> tuple[bytes, Rows]:
        """The next part, normalized, and its rows that matter. Raises OSError."""
        number = self._numbers[part]
        if self._next <= number:
            self._next = number + 1
            self._assign(number)
            block = part.read()
            return block, self._scanner.rows(block)
        size, rows = self._wait(number) or (-1, None)
        block = part.read()
        if rows is None or size != len(block):  # the process failed, or the file has changed
            rows = self._scanner.rows(block)
        return block, rows

    def _wait(self, number: int) -> tuple[int, Rows] | None:
        """The rows of a part; until a process has them, other parts are scanned here."""
        self._receive(0)
        self._assign(number)
        while number not in self._rows:
            if self._next < min(len(self._parts), number + FURTHEST):
                other, self._next = self._next, self._next + 1
                with contextlib.suppress(OSError):
                    block = self._parts[other].read()
                    self._rows[other] = (len(block), self._scanner.rows(block))
                self._rows.setdefault(other, None)
                self._receive(0)
            else:
                self._receive(None)
            self._assign(number)
        return self._rows.pop(number)

    def _assign(self, reached: int) -> None:
        """Keep each process busy with parts beyond the one that is read."""
        for process in self._processes:
            while len(process.queue) < QUEUED and self._next < min(
                len(self._parts), reached + FURTHEST
            ):
                part = self._parts[self._next]
                process.request(self._next, part.path, part.offset, part.size)
                self._next += 1

    def _receive(self, timeout: float | None) -> None:
        """Take the results that are there, after at most so many seconds."""
        waiting = [process for process in self._processes if process.queue]
        for process in select.select(waiting, [], [], timeout)[0]:
            for number, result in process.receive():
                self._rows[number] = result
            if process.has_failed:
                self._processes.remove(process)

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.close()


@contextlib.contextmanager
def scanned_ahead(
    paths: Sequence[str], scanner: Scanner, processes: int | None
) -> Iterator[tuple[Ahead, list[Part]]]:
    """The parts of those files that are worth another process, and their rows."""
    spare = min(MOST_PROCESSES, processes or usable_processors()) - 1
    parts = [part for path in paths for part in parts_of(path)] if spare else []
    if sum(part.size for part in parts) < WORTHWHILE:
        parts = []
    ahead = Ahead(parts, scanner, spare if parts else 0)
    try:
        yield ahead, parts
    finally:
        ahead.close()

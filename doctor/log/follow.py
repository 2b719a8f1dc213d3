"""Logs that a running job writes: growing, rotated, one per rank, until the job ends."""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from pathlib import Path

from doctor.facts.log import Log
from doctor.log.kinds import Kinds
from doctor.log.lines import LONGEST
from doctor.log.opening import STDIN, files_of
from doctor.log.patterns import Gate, LinePattern
from doctor.log.ranks import ranks_of
from doctor.log.read import FileReader, join
from doctor.log.scan import Scanner

PAUSE = 0.5
"""Seconds between two looks at the files."""
AT_ONCE = 4 << 20
"""Bytes that are read of a file in one look."""
SILENT = 600.0
"""Seconds without a new byte after which a job on another machine counts as ended."""


class Followed:
    """One file that grows, and the file that takes its place when it is rotated."""

    def __init__(self, path: str, kinds: Kinds, scanner: Scanner, rank: int | None) -> None:
        self.path = path
        self.reader = FileReader(path, kinds, scanner, rank)
        self._descriptor: int | None = None
        self._rest = b""

    def look(self) -> bool:
        """Read what is new; whether anything was. A file that is not there yet is waited for."""
        if self._descriptor is None and not self._open():
            return False
        assert self._descriptor is not None
        try:
            data = os.read(self._descriptor, AT_ONCE)
            if not data and self._was_replaced():
                self.close()
                return self._open()
        except OSError as error:
            self.reader.problem = error.strerror or "could not be read"
            return False
        self._add(data)
        return bool(data)

    def _open(self) -> bool:
        try:
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            return False
        return True

    def _was_replaced(self) -> bool:
        """Whether the path is another file now, or the file was cut."""
        assert self._descriptor is not None
        try:
            now, own = Path(self.path).stat(), os.fstat(self._descriptor)
        except OSError:
            return False
        cut = own.st_size < os.lseek(self._descriptor, 0, os.SEEK_CUR)
        return (now.st_ino, now.st_dev) != (own.st_ino, own.st_dev) or cut

    def _add(self, data: bytes) -> None:
        """Read whole lines; of one that does not end, its first bytes are kept."""
        self.reader.bytes += len(data)
        block = self._rest + data.lstrip(b"\0")
        end = max(block.rfind(b"\n"), block.rfind(b"\r", 0, len(block) - 1)) + 1
        self._rest = block[end:]
        if len(self._rest) > 2 * LONGEST:
            self._rest = self._rest[:LONGEST]
        if end:
            self.reader.text.read(block[:end])

    def close(self) -> None:
        """Read the rest as a line, and close the file."""
        if self._rest:
            self.reader.text.read(self._rest + b"\n")
            self._rest = b""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    @property
    def file(self) -> tuple[int, int] | None:
        """Device and inode, as /proc names open files."""
        if self._descriptor is None:
            return None
        own = os.fstat(self._descriptor)
        return own.st_dev, own.st_ino


def follow(
    names: Sequence[str],
    patterns: Sequence[LinePattern],
    report: Callable[[Log], None],
    is_over: Callable[[], bool] = lambda: False,
) -> Log:
    """Read the files as they grow; `report` gets the log whenever something is new.

    Ends when no process of this machine writes to the files any more, when nothing was written for
    `SILENT` seconds, or when `is_over`; KeyboardInterrupt ends it, too.
    """
    kinds = Kinds(Gate(patterns))
    scanner = Scanner(kinds.gate)
    followed: dict[str, Followed] = {}
    last, was_written = time.monotonic(), False
    try:
        while not is_over():
            _add_files(names, kinds, scanner, followed)
            grown = [each.look() for each in followed.values()]  # every file has its turn
            writers = (not was_written or not any(grown)) and _writers(followed.values())
            was_written = was_written or writers
            if any(grown):
                last = time.monotonic()
                report(_log(followed))
            elif (was_written and not writers) or time.monotonic() - last > SILENT:
                break
            else:
                time.sleep(PAUSE)
    except KeyboardInterrupt:
        pass
    for each in followed.values():
        each.close()
        each.reader.text.end()
    return _log(followed)


def _add_files(
    names: Sequence[str], kinds: Kinds, scanner: Scanner, followed: dict[str, Followed]
) -> None:
    """Files that are new: a rank may begin its log late."""
    paths = [path for name in names for path in _expand(name)]
    new = [path for path in dict.fromkeys(paths) if path not in followed]
    if new:
        ranks = ranks_of([*followed, *new])
        followed.update({path: Followed(path, kinds, scanner, ranks.get(path)) for path in new})


def _expand(name: str) -> list[str]:
    """A pattern's files, a directory's, or the name itself, which may not exist yet."""
    if name == STDIN:
        return []
    if Path(name).is_dir():
        return files_of(name)
    matches = sorted(glob.glob(name))  # noqa: PTH207 - absolute patterns as well
    return matches or ([] if glob.has_magic(name) else [name])


def _log(followed: dict[str, Followed]) -> Log:
    return join([each.reader.result() for each in followed.values()])


def _writers(followed: Iterable[Followed]) -> bool:
    """Whether a process of this machine has one of the files open for writing."""
    files = {each.file for each in followed} - {None}
    return any(_writes(process, files) for process in _processes())


def _processes() -> Iterator[str]:
    try:
        yield from (path.name for path in Path("/proc").iterdir() if path.name.isdigit())
    except OSError:
        return


def _writes(process: str, files: Container[object]) -> bool:
    directory = f"/proc/{process}/fd"
    try:
        descriptors = [path.name for path in Path(directory).iterdir()]
    except OSError:
        return False
    return int(process) != os.getpid() and any(
        _is_open_for_writing(f"{directory}/{each}", f"/proc/{process}/fdinfo/{each}", files)
        for each in descriptors
    )


def _is_open_for_writing(link: str, info: str, files: Container[object]) -> bool:
    try:
        status = Path(link).stat()
        if (status.st_dev, status.st_ino) not in files:
            return False
        flags = next(line for line in Path(info).read_text().splitlines() if "flags" in line)
        return bool(int(flags.split()[1], 8) & (os.O_WRONLY | os.O_RDWR))
    except (OSError, StopIteration, ValueError):
        return False

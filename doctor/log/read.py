"""Logs to facts: every file by what it is, in bounded memory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from doctor._util.errors import reason_of
from doctor.facts.log import Curve, Log, LogEvent, LogFile, RankSeen, RootCause
from doctor.facts.stated import Setting
from doctor.log.blocks import blocks
from doctor.log.collector import Collector
from doctor.log.kinds import Kinds
from doctor.log.lines import normalized
from doctor.log.metrics.curves import MOST, Curves, most_values
from doctor.log.metrics.files import file_kind, read_metric_file
from doctor.log.metrics.kept import KeptRows
from doctor.log.metrics.runs import CUES as RUN_CUES
from doctor.log.metrics.runs import runs_of
from doctor.log.metrics.scores import ALL_CUES, read_scores
from doctor.log.opening import HEAD, READ_ERRORS, STDIN, is_binary, opened
from doctor.log.patterns import Gate, LinePattern
from doctor.log.ranks import ranks_of
from doctor.log.scan import Scanner
from doctor.log.stated.read import stated_in
from doctor.log.text import TextReader

if TYPE_CHECKING:
    from doctor.log.ahead import Ahead, Part

PIPED = "stdin"
"""What a text is called that was piped in."""
MOST_BYTES = 1 << 40
"""Bytes of a compressed file that are read after decompression."""
RATIO = 200
"""A compressed file is not read on beyond this ratio and 1 GiB; logs reach about 50."""
FREE = 1 << 30
FEW_FILES = 16
"""Logs each of which keeps what it states: more are the ranks of one run. Our own number."""
SHORT = 1 << 15
"""Bytes of a text that is looked at again: what people paste."""

Progress = Callable[[str], None]


@dataclass(slots=True)
class FileResult:
    """What one file contributes to the log."""

    file: LogFile
    events: tuple[LogEvent, ...] = ()
    harmless: tuple[LogEvent, ...] = ()
    curves: tuple[Curve, ...] = ()
    versions: dict[str, str] | None = None
    last_step: int | None = None
    omitted: int = 0
    root_causes: tuple[RootCause, ...] = ()
    ranks: tuple[RankSeen, ...] = ()
    stated: tuple[Setting, ...] = ()
    text: bytes = b""
    """The whole of a short text, for a second look."""


def unchanged(result: FileResult) -> FileResult:
    """Without a second look."""
    return result


def read_logs(
    paths: Sequence[str],
    patterns: Sequence[LinePattern],
    report_progress: Progress = lambda activity: None,
    processes: int | None = None,
    look_again: Callable[[FileResult], FileResult] = unchanged,
) -> Log:
    """Read every file, once. A file that cannot be read is in the log with its problem.

    Large files are read by at most so many processes; None: by as many as there are processors.
    What each file gave goes through `look_again`.
    """
    paths = tuple(dict.fromkeys(paths))
    results = read_files(paths, patterns, paths, report_progress, processes)
    return join([look_again(result) for result in results])


def read_files(
    paths: Sequence[str],
    patterns: Sequence[LinePattern],
    among: Sequence[str],
    report_progress: Progress = lambda activity: None,
    processes: int | None = None,
) -> list[FileResult]:
    """What each file contributes to the log of all files `among` which it is."""
    from doctor.log.ahead import scanned_ahead  # not needed to explain one line

    kinds = Kinds(Gate(patterns))
    scanner = Scanner(kinds.gate)
    ranks = ranks_of(among)
    results = []
    with scanned_ahead(paths, scanner, processes) as (ahead, parts):
        parts_of = {path: list(own) for path, own in groupby(parts, lambda part: part.path)}
        for path in paths:
            report_progress(f"reading {path}")
            reader = FileReader(path, kinds, scanner, ranks.get(path), most_values(len(among)))
            own = parts_of.get(path)
            results.append(_read_parts(own, ahead, reader) if own else read_file(reader))
    return results


def join(results: Sequence[FileResult]) -> Log:
    """The log of all files, in their order."""
    versions: dict[str, str] = {}
    for result in results:
        for package, version in (result.versions or {}).items():
            versions.setdefault(package, version)
    steps = [result.last_step for result in results if result.last_step is not None]
    return Log(
        files=tuple(result.file for result in results),
        events=tuple(event for result in results for event in result.events),
        harmless=tuple(event for result in results for event in result.harmless),
        curves=tuple(curve for result in results for curve in result.curves),
        versions=versions,
        last_step=max(steps, default=None),
        omitted=sum(result.omitted for result in results),
        root_causes=tuple(each for result in results for each in result.root_causes),
        ranks=tuple(each for result in results for each in result.ranks),
        stated=tuple(_stated(results)),
    )


def _stated(results: Sequence[FileResult]) -> Iterator[Setting]:
    """What the files state; of the many files of one run each value once."""
    known: set[tuple[str, str]] = set()
    for result in results:
        for each in result.stated:
            value = (each.name, each.text)
            if len(results) <= FEW_FILES or value not in known:
                known.add(value)
                yield each


def read_stream(name: str, source: BinaryIO, gate: Gate) -> Log:
    """A text that is no file."""
    reader = FileReader(name, Kinds(gate), Scanner(gate), None)
    return join([_read_source(contextlib.nullcontext(source), reader)])


def read_file(reader: FileReader) -> FileResult:
    """One file, as far as it can be read."""
    return _read_source(opened(reader.source), reader)


def _read_parts(parts: Sequence[Part], ahead: Ahead, reader: FileReader) -> FileResult:
    """A large text whose parts are scanned ahead."""
    reader.text.bytes = sum(part.size for part in parts)
    try:
        for part in parts:
            block, rows = ahead.read(part)
            reader.keep(block)
            reader.text.read_rows(block, rows)
            reader.bytes += part.size
    except OSError as error:
        reader.problem = reason_of(error)
    reader.text.end()
    return reader.result()


def _read_source(opening: AbstractContextManager[BinaryIO], reader: FileReader) -> FileResult:
    stream = _Counted()
    try:
        with opening as source:
            stream.source = source
            stream.limit = _limit(reader.path, source)
            reader.text.bytes = _plain_size(source)
            _read(stream, reader)
    except READ_ERRORS as error:
        reader.problem = reason_of(error)
    reader.bytes = stream.bytes
    return reader.result()


class FileReader:
    """What was read of one file so far."""

    def __init__(
        self, path: str, kinds: Kinds, scanner: Scanner, rank: int | None, values: int = MOST
    ) -> None:
        self.source, self.path, self.rank = path, PIPED if path == STDIN else path, rank
        self.kind, self.problem, self.bytes = "text", "", 0
        self.curves = Curves(self.path, rank, values)
        self.short = b""
        self.rows = KeptRows((*ALL_CUES, *RUN_CUES))
        self.collector = Collector(self.path, kinds.gate, rank)
        self.text = TextReader(self.collector, self.curves, kinds, scanner)

    def keep(self, block: bytes) -> None:
        """The next part of the text, as far as it may be looked at again."""
        if len(self.short) <= SHORT:
            self.short += block
        self.rows.add(normalized(block))

    def result(self) -> FileResult:
        """What it amounts to; more may be read afterwards."""
        ended = self.text.lines if self.text.ended else 0
        scores = Curves(self.path, self.rank)
        rows = self.rows.rows()
        read_scores(rows, scores)
        starts, scratch = runs_of(rows, self.curves.begun)
        named = {curve.name for curve in self.curves.curves()}
        events, harmless = self.collector.events(ended)
        file = LogFile(
            path=self.path,
            kind=self.kind,
            bytes=self.bytes,
            lines=self.text.lines or self.curves.rows_of_file,
            rank=self.rank,
            problem=self.problem,
            finished=self.collector.finished,
            starts=starts,
            scratch=scratch,
        )
        return FileResult(
            file=file,
            events=events,
            harmless=harmless,
            curves=(
                *self.curves.curves(),
                *(curve for curve in scores.curves() if curve.name not in named),
            ),
            versions=self.text.versions,
            last_step=self.curves.last_step,
            omitted=self.collector.omitted,
            root_causes=tuple(self.collector.launcher.causes),
            ranks=tuple(self._ranks()),
            stated=stated_in(self.rows.opening() or rows, self.path),
            text=self.short if self.bytes <= SHORT else b"",
        )

    def _ranks(self) -> Iterator[RankSeen]:
        """The ranks of lines, or of the file's name with its last line and step."""
        if self.rank is not None and self.text.lines:
            seen = self.collector.ranks.get(self.rank)
            time, step = (seen.time if seen else None), self.curves.last_step
            yield RankSeen(self.rank, self.path, self.text.lines, step, time, named=True)
        for rank, last in self.collector.ranks.items():
            if rank != self.rank:
                yield last


def _read(stream: _Counted, reader: FileReader) -> None:
    """Read by the kind of the file. Raises what reading raises."""
    head = stream.peek(HEAD)
    reader.kind = file_kind(reader.path, head)
    if reader.kind != "text":
        read_metric_file(reader.kind, stream, reader.curves)
        return
    if is_binary(head):
        raise OSError("is not a text file")
    for block in blocks(stream):
        reader.text.read(block)
        reader.keep(block)
    reader.text.end()


def _limit(path: str, source: BinaryIO) -> int:
    """Bytes that a compressed file may grow to."""
    try:
        size = Path(path).stat().st_size
    except (OSError, ValueError):
        return MOST_BYTES
    return MOST_BYTES if _is_plain(source) else FREE + RATIO * size


def _is_plain(source: BinaryIO) -> bool:
    return type(source).__name__ in ("BufferedReader", "FileIO")


def _plain_size(source: BinaryIO) -> int:
    """The bytes of a file that is read as it is; 0 for a pipe or where it is unknown."""
    try:
        return os.fstat(source.fileno()).st_size if _is_plain(source) else 0
    except OSError:
        return 0


class _Counted:
    """A stream that counts its bytes, stops at a limit, and shows its head before it is read."""

    def __init__(self) -> None:
        self.source: BinaryIO | None = None
        self.bytes = 0
        self.limit = MOST_BYTES
        self._head = b""

    def peek(self, size: int) -> bytes:
        """The head, without the NULs that a cut log or a node that crashed begins with."""
        while not self._head.lstrip(b"\0") and (data := self._take(size)):
            self._head = data
        self._head = self._head.lstrip(b"\0")
        while len(self._head) < size and (data := self._take(size - len(self._head))):
            self._head += data
        return self._head

    def read(self, size: int = -1) -> bytes:
        if self._head:
            head, self._head = self._head, b""
            return head + self._take(max(0, size - len(head)))
        return self._take(size)

    def _take(self, size: int) -> bytes:
        assert self.source is not None
        data = self.source.read(size)
        self.bytes += len(data)
        if self.bytes > self.limit:
            raise OSError(f"grows beyond {self.limit:,} bytes; the rest was not read")
        return data

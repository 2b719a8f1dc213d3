"""Reads a text log: a few passes over each block, and care for the rows that matter."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from doctor.log import versions
from doctor.log.collector import Collector
from doctor.log.kinds import Kind, Kinds
from doctor.log.lines import Line, clean, normalized
from doctor.log.metrics.curves import Curves
from doctor.log.metrics.text import SUMMARY, is_metric_row, read_metrics
from doctor.log.rows import LOOK_BACK, Rows, rows_after, rows_before
from doctor.log.scan import Scanner

ENDS = (Kind.FINISHED, Kind.ENDED_WELL)
SAMPLE = 1 << 20
"""Bytes at the start of a file from which the number of its metrics is estimated."""


class TextReader:
    """The rows of one file, block by block."""

    def __init__(
        self, collector: Collector, curves: Curves, kinds: Kinds, scanner: Scanner
    ) -> None:
        self.collector, self.curves = collector, curves
        self.versions: dict[str, str] = {}
        self.lines = 0
        self.bytes = 0
        """Of the whole file, where that is known."""
        self._kinds, self._scanner = kinds, scanner
        self.ended = False
        self._unfinished = False
        self._before = b""
        self._passed = b""
        """The last row of metrics, where it was not read."""

    def read(self, block: bytes) -> None:
        """One block of whole lines."""
        block = normalized(block)
        self.read_rows(block, self._scanner.rows(block))

    def read_rows(self, block: bytes, rows: Rows) -> None:
        """One block without escape sequences and control characters, and its rows that matter."""
        if not self._before and min(self.bytes, len(block)) >= SAMPLE:
            sample = bisect_left(rows.starts, SAMPLE)
            self.curves.expect(sample - bisect_left(rows.unclear, sample), SAMPLE / self.bytes)
        at = self._read_tracebacks(block, rows, 0, 0)
        for unclear in rows.unclear:
            if unclear < at:
                continue
            self._read_metrics(block, rows, at, unclear)
            start, end = rows.starts[unclear], rows.ends[unclear]
            self._read_row(block, start, end, rows.lines[unclear])
            at = self._read_tracebacks(block, rows, end, unclear + 1)
        self._read_metrics(block, rows, at, len(rows.starts))
        self._before = block[-LOOK_BACK:]
        self.lines += rows.newlines
        self._unfinished = not block.endswith(b"\n")

    def _read_metrics(self, block: bytes, rows: Rows, first: int, stop: int) -> None:
        """Rows of finite metrics: only every so many of them is read."""
        if first >= stop:
            return
        self.collector.progress += stop - first
        self.collector.finished = self.collector.ended_well = 0
        at = first
        while (wanted := at + self.curves.until_wanted()) < stop:
            self.curves.pass_over(wanted + 1 - at)
            row = block[rows.starts[wanted] : rows.ends[wanted]]
            self._read_metric_row(row, self.lines + rows.lines[wanted] + 1)
            at = wanted + 1
        self.curves.pass_over(stop - at)
        self._passed = block[rows.starts[stop - 1] : rows.ends[stop - 1]] if at < stop else b""

    def _read_tracebacks(self, block: bytes, rows: Rows, start: int, at: int) -> int:
        """All rows from an offset on, while a traceback is open; the index of the next of `rows`.

        `at` is the index of the first one of `rows` from the offset on.
        """
        if not self.collector.reads_on():
            return at
        line = block.count(b"\n", 0, start)
        for begin, end in rows_after(block, start):
            self._read_row(block, begin, end, line)
            line += block[end - 1] == 10
            if at < len(rows.starts) and rows.starts[at] == begin:
                at += 1
            if not self.collector.reads_on():
                break
        return at

    def _read_row(self, block: bytes, start: int, end: int, newlines: int) -> None:
        """One row, after so many newlines of the block."""
        row, number = block[start:end], self.lines + newlines + 1
        collector = self.collector
        kind, patterns = self._kind_of(row)
        if kind in (Kind.METRIC, Kind.NONFINITE):
            collector.progress += 1
            collector.finished = collector.ended_well = 0
            if self.curves.wants(kind is Kind.NONFINITE):
                self._read_metric_row(row, number)
        elif kind is Kind.VERSION:
            versions.read(clean(row), self.versions)
        elif kind is Kind.FINISHED:
            collector.finished = number
        elif kind is Kind.ENDED_WELL:
            self._end_well(row, number)
        elif kind is Kind.CANDIDATE and is_metric_row(row.lower()):
            self._read_metric_row(row, number)
        if kind is Kind.CANDIDATE or (collector.reads_on() and kind not in ENDS):
            line = Line(number, clean(row), patterns)
            collector.take(line, self._rows_before(block, start))
            collector.seen(line)

    def _end_well(self, row: bytes, number: int) -> None:
        self.collector.finished = self.collector.ended_well = number
        if SUMMARY in row.lower():
            self._read_metric_row(row, number)

    def _kind_of(self, row: bytes) -> tuple[Kind, tuple[int, ...]]:
        """`loss = criterion(x)` in a frame of a traceback is no metric."""
        kind, patterns = self._kinds.of(row)
        tracebacks = self.collector.tracebacks
        if kind is Kind.METRIC and tracebacks.open and tracebacks.holds(clean(row)):
            return Kind.OTHER, ()
        return kind, patterns

    def _read_metric_row(self, row: bytes, number: int) -> None:
        read_metrics(row, number, self.curves)
        if b"ank" in row or row[:1] in b"[0123456789 ":
            self.collector.seen(Line(number, clean(row)), self.curves.step)

    def _rows_before(self, block: bytes, start: int) -> Iterator[str]:
        """The rows before an offset, the nearest first."""
        yield from map(clean, rows_before(block, start))
        yield from map(clean, rows_before(self._before, len(self._before)))

    def end(self) -> None:
        """A last line without a newline counts as one."""
        self.lines += self._unfinished
        self._unfinished = False
        if self._passed:
            last = Curves(self.curves.path)
            read_metrics(self._passed, self.lines, last)
            self.curves.last_step = max(last.last_step or 0, self.curves.last_step or 0) or None
        self.ended = True
        self.collector.launcher.end(self.lines)

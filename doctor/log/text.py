"""Reads a text log: a few passes over each block, and care for the lines that matter."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.log import versions
from doctor.log.collector import Collector
from doctor.log.kinds import Kind, Kinds
from doctor.log.lines import LONGEST, Line, clean, without_escapes
from doctor.log.metrics.curves import Curves
from doctor.log.metrics.text import is_metric_line, read_metrics
from doctor.log.templates import templates


class TextReader:
    """The lines of one file, block by block."""

    def __init__(self, collector: Collector, curves: Curves, kinds: Kinds) -> None:
        self.collector, self.curves = collector, curves
        self.versions: dict[str, str] = {}
        self.lines = 0
        self._kinds = kinds
        self._unfinished = False
        self._before: list[bytes] = []

    def read(self, block: bytes) -> None:
        """One block of whole lines."""
        block = without_escapes(block)
        names = templates(block)
        hits = self._kinds.interesting(set(names))
        if hits or self.collector.tracebacks.open:
            self._read_lines(block, names, hits)
        self.lines += block.count(b"\n")
        self._unfinished = not block.endswith(b"\n")

    def _read_lines(self, block: bytes, names: list[bytes], hits: set[bytes]) -> None:
        """The lines that may matter, and all lines while a traceback is open."""
        rows = block.splitlines(keepends=True)
        lines = _Numbers(rows, self.lines + 1)
        open_tracebacks = self.collector.tracebacks.open
        interesting = [index for index, name in enumerate(names) if name in hits]
        index = 0 if open_tracebacks else -1
        for hit in [*interesting, len(rows)]:
            while open_tracebacks and 0 <= index < hit:
                self._take(Kind.OTHER, lines, rows, index, names[index])
                index += 1
            if hit < len(rows):
                self._take(self._kinds.of(names[hit]), lines, rows, hit, names[hit])
            index = hit + 1
        self._before = rows[-200:]

    def _take(
        self, kind: Kind, lines: _Numbers, rows: list[bytes], index: int, name: bytes
    ) -> None:
        collector = self.collector
        if kind in (Kind.METRIC, Kind.NONFINITE):
            collector.progress += 1
            collector.finished = False
            if self.curves.wants(kind is Kind.NONFINITE):
                read_metrics(clean(rows[index]), lines.of(index), self.curves)
            if not collector.tracebacks.open:
                return
        text = clean(rows[index])
        if kind is Kind.VERSION:
            versions.read(text, self.versions)
        if kind is Kind.FINISHED:
            collector.finished = True
            return
        if kind is Kind.CANDIDATE and is_metric_line(name):
            read_metrics(text, lines.of(index), self.curves)
        line = Line(lines.of(index), text, name[:LONGEST])
        collector.take(line, self._lines_before(rows, index))

    def _lines_before(self, rows: list[bytes], index: int) -> Iterator[str]:
        """The lines before one of these, the nearest first."""
        for row in reversed(rows[max(0, index - 200) : index]):
            yield clean(row)
        for row in reversed(self._before):
            yield clean(row)

    def end(self) -> None:
        """A last line without a newline counts as one."""
        self.lines += self._unfinished


class _Numbers:
    """The numbers of rows in rising order: a row that ends with a carriage return is no line."""

    def __init__(self, rows: list[bytes], first: int) -> None:
        self._rows, self._row, self._number = rows, 0, first

    def of(self, index: int) -> int:
        self._number += b"".join(self._rows[self._row : index]).count(b"\n")
        self._row = index
        return self._number

"""Reads a text log: a few passes over each block, and care for the lines that matter."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from doctor.log import tracebacks, versions
from doctor.log.collector import Collector
from doctor.log.lines import LONGEST, Line, clean, without_escapes
from doctor.log.metrics.curves import Curves
from doctor.log.metrics.text import is_metric_line, may_be_nonfinite, read_metrics
from doctor.log.templates import templates

REMEMBERED = 8 << 20
"""Bytes of templates that are remembered."""
FINISHED = (b"train_runtim", b"trainingcompltd", b"trainingcomplt")
"""Letters of lines that a training prints when it ended: the Trainer's summary, among others."""


class Kind(Enum):
    """What a line with these letters may be."""

    OTHER = 0
    METRIC = 1
    NONFINITE = 2
    CANDIDATE = 3
    VERSION = 4
    FINISHED = 5


class TextReader:
    """The lines of one file, block by block."""

    def __init__(self, collector: Collector, curves: Curves) -> None:
        self.collector, self.curves = collector, curves
        self.versions: dict[str, str] = {}
        self.lines = 0
        self._kinds: dict[bytes, Kind] = {}
        self._interesting: set[bytes] = set()
        self._remembered = 0
        self._unfinished = False
        self._before: list[bytes] = []

    def read(self, block: bytes) -> None:
        """One block of whole lines."""
        block = without_escapes(block)
        names = templates(block)
        if self._remembered > REMEMBERED:
            self._forget()
        present = set(names)
        for name in present - self._kinds.keys():
            self._learn(name)
        hits = present & self._interesting
        if hits or self.collector.tracebacks.open:
            self._read_lines(block, names, hits)
        self.lines += block.count(b"\n")
        self._unfinished = not block.endswith(b"\n")

    def _learn(self, name: bytes) -> None:
        """Classify lines with these letters."""
        kind = self._kind(name[:LONGEST])
        self._remembered += len(name) + 100
        self._kinds[name] = kind
        if kind is not Kind.OTHER:
            self._interesting.add(name)

    def _forget(self) -> None:
        self._kinds.clear()
        self._interesting.clear()
        self._remembered = 0

    def _kind(self, name: bytes) -> Kind:
        if tracebacks.CUE in name or self.collector.gate.admits(name):
            return Kind.CANDIDATE
        if any(cue in name for cue in FINISHED):
            return Kind.FINISHED
        if is_metric_line(name):
            return Kind.NONFINITE if may_be_nonfinite(name) else Kind.METRIC
        return Kind.VERSION if versions.may_name_one(name) else Kind.OTHER

    def _read_lines(self, block: bytes, names: list[bytes], hits: set[bytes]) -> None:
        rows = block.splitlines(keepends=True)
        number = self.lines + 1
        open_tracebacks = self.collector.tracebacks.open
        for index, name in enumerate(names):
            if name in hits or open_tracebacks:
                kind = self._kinds.get(name, Kind.OTHER)
                self._take(kind, number, rows, index, name)
            if rows[index].endswith(b"\n"):
                number += 1
        self._before = rows[-200:]

    def _take(self, kind: Kind, number: int, rows: list[bytes], index: int, name: bytes) -> None:
        if kind is Kind.METRIC or kind is Kind.NONFINITE:
            self.collector.progress += 1
            self.collector.finished = False
            if self.curves.wants(kind is Kind.NONFINITE):
                read_metrics(clean(rows[index]), number, self.curves)
            if not self.collector.tracebacks.open:
                return
        text = clean(rows[index])
        if kind is Kind.VERSION:
            versions.read(text, self.versions)
        if kind is Kind.FINISHED:
            self.collector.finished = True
        else:
            line = Line(number, text, name[:LONGEST])
            self.collector.take(line, self._lines_before(rows, index))

    def _lines_before(self, rows: list[bytes], index: int) -> Iterator[str]:
        """The lines before one of these, the nearest first."""
        for row in reversed(rows[max(0, index - 200) : index]):
            yield clean(row)
        for row in reversed(self._before):
            yield clean(row)

    def end(self) -> None:
        """A last line without a newline counts as one."""
        self.lines += self._unfinished

"""What a line may be, by its letters: each template of the logs is classified once."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from doctor.log import tracebacks, versions
from doctor.log.lines import LONGEST
from doctor.log.metrics.text import is_metric_line, may_be_nonfinite
from doctor.log.patterns import Gate

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


class Kinds:
    """The kinds of the templates of all files, which repeat each other."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self._kinds: dict[bytes, Kind] = {}
        self._interesting: set[bytes] = set()
        self._size = 0

    def of(self, name: bytes) -> Kind:
        return self._kinds.get(name, Kind.OTHER)

    def interesting(self, names: set[bytes]) -> set[bytes]:
        """Those of the templates whose lines may matter."""
        if self._size > REMEMBERED:
            self._kinds.clear()
            self._interesting.clear()
            self._size = 0
        if new := names - self._kinds.keys():
            self._learn(new)
        return names & self._interesting

    def _learn(self, names: Iterable[bytes]) -> None:
        admitted = self.gate.admitted([name[:LONGEST] for name in names])
        for name in names:
            kind = self._kind(name[:LONGEST], admitted)
            self._kinds[name] = kind
            self._size += len(name) + 100
            if kind is not Kind.OTHER:
                self._interesting.add(name)

    def _kind(self, name: bytes, admitted: set[bytes]) -> Kind:
        if name in admitted or any(cue in name for cue in tracebacks.CUES):
            return Kind.CANDIDATE
        if any(cue in name for cue in FINISHED):
            return Kind.FINISHED
        if is_metric_line(name):
            return Kind.NONFINITE if may_be_nonfinite(name) else Kind.METRIC
        return Kind.VERSION if versions.may_name_one(name) else Kind.OTHER

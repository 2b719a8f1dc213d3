"""Ranges of files in which values of one dtype lie side by side, and whose they are."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from doctor.checkpoint.analysis.nonfinite import FORMATS
from doctor.checkpoint.tensors import Part, Tensor


class Owned(NamedTuple):
    """A range of a run, and the tensor whose bytes from `skipped` on it holds."""

    begin: int
    end: int
    skipped: int
    tensor: Tensor


@dataclass(slots=True)
class Run:
    """Bytes of one file; tensors that share them are all named."""

    file: str
    dtype: str
    begin: int
    end: int
    owned: list[Owned] = field(default_factory=list)
    reach: list[int] = field(default_factory=list)
    """Up to where the first, the first two, ... of `owned` go."""

    def within(self, begin: int, end: int) -> Iterator[Owned]:
        """What lies between two places of the file, at least in part."""
        for owned in self.owned[bisect.bisect_right(self.reach, begin) :]:
            if owned.begin >= end:
                return
            if owned.end > begin:
                yield owned


def parts(tensor: Tensor) -> tuple[Part, ...]:
    """Where a tensor's bytes are, in order."""
    return tensor.parts or (Part(tensor.file, tensor.begin, tensor.end),)


def merge(tensors: Iterable[Tensor]) -> list[Run]:
    """As few runs as there can be, in the order of the files."""
    owned: list[tuple[str, str, Owned]] = []
    for tensor in tensors:
        skipped = 0
        for part in parts(tensor):
            if part.end > part.begin:
                piece = Owned(part.begin, part.end, skipped, tensor)
                owned.append((part.file, tensor.dtype, piece))
            skipped += part.end - part.begin
    owned.sort(key=lambda item: (*item[:2], item[2].begin))
    runs: list[Run] = []
    for file, dtype, piece in owned:
        if not (runs and _continues(runs[-1], file, dtype, piece)):
            runs.append(Run(file, dtype, piece.begin, piece.end))
        run = runs[-1]
        run.end = max(run.end, piece.end)
        run.owned.append(piece)
        run.reach.append(run.end)
    return sorted(runs, key=lambda run: (run.file, run.begin))


def _continues(run: Run, file: str, dtype: str, piece: Owned) -> bool:
    """Side by side or overlapping, with values that begin at the same places."""
    beside = run.file == file and run.dtype == dtype and piece.begin <= run.end
    return beside and (piece.begin - run.begin) % FORMATS[dtype].size == 0

"""Ranges of files in which values of one dtype lie side by side, and whose they are."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from doctor.checkpoint.analysis.nonfinite import FORMATS
from doctor.checkpoint.tensors import Tensor


class Piece(NamedTuple):
    """A range of a span, and the tensor whose bytes from `skipped` on it holds."""

    begin: int
    end: int
    skipped: int
    tensor: Tensor


@dataclass(slots=True)
class Span:
    """Bytes of one file; tensors that share them are all named."""

    file: str
    dtype: str
    begin: int
    end: int
    pieces: list[Piece] = field(default_factory=list)
    reach: list[int] = field(default_factory=list)
    """Where the first, the first two, ... of `pieces` end at most."""

    def within(self, begin: int, end: int) -> Iterator[Piece]:
        """What lies between two places of the file, at least in part."""
        for piece in self.pieces[bisect.bisect_right(self.reach, begin) :]:
            if piece.begin >= end:
                return
            if piece.end > begin:
                yield piece


def merge(tensors: Iterable[Tensor]) -> list[Span]:
    """As few runs as there can be, in the order of the files."""
    pieces: list[tuple[str, str, Piece]] = []
    for tensor in tensors:
        skipped = 0
        for part in tensor.ranges:
            if part.end > part.begin:
                piece = Piece(part.begin, part.end, skipped, tensor)
                pieces.append((part.file, tensor.dtype, piece))
            skipped += part.end - part.begin
    pieces.sort(key=lambda item: (*item[:2], item[2].begin))
    spans: list[Span] = []
    for file, dtype, piece in pieces:
        if not (spans and _continues(spans[-1], file, dtype, piece)):
            spans.append(Span(file, dtype, piece.begin, piece.end))
        span = spans[-1]
        span.end = max(span.end, piece.end)
        span.pieces.append(piece)
        span.reach.append(span.end)
    return sorted(spans, key=lambda span: (span.file, span.begin))


def _continues(span: Span, file: str, dtype: str, piece: Piece) -> bool:
    """Side by side or overlapping, with values that begin at the same places."""
    beside = span.file == file and span.dtype == dtype and piece.begin <= span.end
    return beside and (piece.begin - span.begin) % FORMATS[dtype].size == 0

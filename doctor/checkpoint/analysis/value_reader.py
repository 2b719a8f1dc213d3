"""Every byte of ranges of values, read by threads and looked at chunk by chunk."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from doctor.checkpoint.analysis.nonfinite import (
    FORMATS,
    Tally,
    as_float,
    first_counted,
    magnitude,
    tally,
)
from doctor.checkpoint.analysis.value_ranges import Piece, Span
from doctor.checkpoint.analysis.value_shares import of_share
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.files import Directory, LocalFile, Source, read_into
from doctor.checkpoint.optimizer_slots import SQUARES
from doctor.checkpoint.records import Problem
from doctor.checkpoint.tensors import Tensor

if TYPE_CHECKING:
    from doctor.checkpoint.analysis.arithmetic import Array

CHUNK = 512 * 1024
"""Bytes read and examined at once: few enough to stay in a core's cache in between."""

PIECE = 32 * CHUNK
"""Bytes that a thread takes at a time."""

PAGE = 4096

NEVER = 1 << 64

Progress = Callable[[int, int], None]
"""Called with the bytes done and the bytes in all, from one thread at a time."""

CHANGED = "was changed while its values were read"


class Limits:
    """The magnitudes from which values of a matrix are far beyond the rest of it, as bits.

    And which tensors hold no negative values.
    """

    def __init__(self, spans: list[Span], of: dict[Tensor, int], moments: Sequence[Tensor]) -> None:
        self.of = of
        self.never_negative = {
            each
            for each in moments
            if _is_square(each.name) and each.dtype in ("F32", "BF16", "F16")
        }
        self._squares = {
            id(span)
            for span in spans
            if any(piece.tensor in self.never_negative for piece in span.pieces)
        }
        self._least = {
            id(span): min((of.get(piece.tensor, NEVER) for piece in span.pieces), default=NEVER)
            for span in spans
        }

    def least(self, span: Span) -> int:
        """The smallest of all tensors in a span."""
        return self._least[id(span)]

    def squares(self, span: Span) -> bool:
        """Whether a span holds tensors without negative values."""
        return id(span) in self._squares


def _is_square(name: str) -> bool:
    """Whether it is a mean of squares: a second moment, the variance of a batch norm."""
    return name.rpartition(": ")[2] in SQUARES or name.endswith("running_var")


class ValueReader:
    """Pieces that threads take turn by turn, and what they found in them."""

    def __init__(
        self, directory: Directory, spans: list[Span], progress: Progress | None, limits: Limits
    ) -> None:
        self.limits = limits
        self.largest: dict[Tensor, tuple[int, float]] = {}
        """Matrix -> its values beyond the limit, and the largest of them."""
        self.negative: dict[Tensor, None] = {}
        self.directory = directory
        self.spans = spans
        self.total = 0
        self.read = 0
        self.tallies: dict[Tensor, Tally] = {}
        self._progress = progress
        self._passed = 0
        self._errors: dict[str, CheckpointError] = {}
        self._stamps: dict[str, tuple[int, ...]] = {}
        self._stopped = False
        self._lock = threading.Lock()

    def divide(self, threads: int, share: tuple[int, int]) -> None:
        """Look at everything of a share; what a thread raises is raised here."""
        every = [(span, at) for span in self.spans for at in range(span.begin, span.end, PIECE)]
        mine = of_share(every, bytes_of, share)
        self.total = sum(map(bytes_of, mine))
        pieces = iter(mine)
        with ThreadPoolExecutor(threads) as pool:
            try:
                for future in [pool.submit(self._take, pieces) for _ in range(threads)]:
                    future.result()
            finally:
                self._stopped = True
        for file in self._stamps:
            with self._recording_errors(file), self.directory.open(file) as source:
                self._check_unchanged(file, source)

    def problems(self) -> list[Problem]:
        return [error.problem(file) for file, error in sorted(self._errors.items())]

    def _take(self, pieces: Iterator[tuple[Span, int]]) -> None:
        """What one thread does, with one buffer and one open file at a time."""
        buffer, opened, file, source = _aligned(), contextlib.ExitStack(), "", None
        with opened:
            for span, begin in pieces:
                if self._stopped:
                    return
                end, looked = min(begin + PIECE, span.end), 0
                with self._recording_errors(span.file):
                    if source is None or span.file != file:
                        opened.close()
                        source, file = None, span.file
                        source = opened.enter_context(self.directory.open(file))
                        self._check_unchanged(file, source)
                    if file not in self._errors:
                        self._look(source, span, begin, end, buffer)
                        looked = end - begin
                self._advance(looked, end - begin)

    def _look(self, source: Source, span: Span, begin: int, end: int, buffer: Any) -> None:
        for at in range(begin, end, CHUNK):
            size = min(CHUNK, end - at)
            got = read_into(source, buffer[:size].data, at)
            data = buffer[: got - got % FORMATS[span.dtype].size]
            if not data.size:
                continue
            top = magnitude(span.dtype, data)
            looks = (
                (self._count, top >= first_counted(span.dtype)),
                (self._compare, top >= self.limits.least(span)),
                (self._look_at_signs, self.limits.squares(span)),
            )
            for look in (look for look, needed in looks if needed):
                for piece in span.within(at, at + data.size):
                    look(piece, at, data)
            if got < size:
                raise CheckpointError(
                    "damaged", f"ended at byte {at + got:,} while its values were read"
                )

    def _count(self, piece: Piece, at: int, data: Array) -> None:
        """Count a tensor's share of a chunk that begins at `at`."""
        tensor, values = piece.tensor, _values(piece, at, data)
        if not values.size:
            return
        skipped = (piece.skipped + max(at - piece.begin, 0)) // FORMATS[tensor.dtype].size
        if tensor.strides is None:
            counted, bad = tally(tensor.dtype, values)
            first = skipped + int(bad.argmax())
        else:
            belongs, place = places(tensor, skipped, values.size)
            counted, bad = tally(tensor.dtype, values[belongs])
            first = int(place[belongs][bad].min(initial=tensor.elements))
        counted.first = first if counted.nonfinite else None
        with self._lock:
            self.tallies.setdefault(piece.tensor, Tally()).add(counted)

    def _compare(self, piece: Piece, at: int, data: Array) -> None:
        """Record a matrix's values in this chunk that are far beyond the rest of it."""
        limit = self.limits.of.get(piece.tensor)
        if limit is None:
            return
        import numpy

        values = _values(piece, at, data)
        sizes = values & values.dtype.type(FORMATS[piece.tensor.dtype].sign - 1)
        far = (sizes > limit) & (sizes <= FORMATS[piece.tensor.dtype].top)
        if count := int(numpy.count_nonzero(far)):
            largest = as_float(piece.tensor.dtype, int(sizes[far].max()))
            with self._lock:
                before = self.largest.get(piece.tensor, (0, 0.0))
                self.largest[piece.tensor] = before[0] + count, max(before[1], largest)

    def _look_at_signs(self, piece: Piece, at: int, data: Array) -> None:
        """Record a mean of squares that is below zero somewhere in this chunk."""
        if piece.tensor in self.limits.never_negative and piece.tensor not in self.negative:
            values, format_ = _values(piece, at, data), FORMATS[piece.tensor.dtype]
            if ((values > format_.sign) & (values <= format_.sign + format_.top)).any():
                with self._lock:
                    self.negative[piece.tensor] = None

    def _advance(self, looked: int, passed: int) -> None:
        with self._lock:
            self.read += looked
            self._passed += passed
            if self._progress is not None:
                self._progress(self._passed, self.total)

    def _check_unchanged(self, file: str, source: Source) -> None:
        """It is still the file that was opened first. Raises CheckpointError."""
        stamp = source.stamp if isinstance(source, LocalFile) else (source.size,)
        if self._stamps.setdefault(file, stamp) != stamp:
            raise CheckpointError("damaged", CHANGED)

    @contextlib.contextmanager
    def _recording_errors(self, file: str) -> Iterator[None]:
        try:
            yield
        except CheckpointError as error:
            self._errors.setdefault(file, error)


def _values(piece: Piece, at: int, data: Array) -> Array:
    """A tensor's share of a chunk that begins at `at`, as unsigned numbers."""
    size = FORMATS[piece.tensor.dtype].size
    begin, end = max(piece.begin, at), min(piece.end, at + data.size)
    return data[begin - at : end - at - (end - begin) % size].view(f"u{size}")


def bytes_of(piece: tuple[Span, int]) -> int:
    span, begin = piece
    return min(PIECE, span.end - begin)


def _aligned() -> object:
    """A buffer of bytes that begins with a page."""
    import numpy

    whole = numpy.empty(CHUNK + PAGE, numpy.uint8)
    skipped = -whole.ctypes.data % PAGE
    return whole[skipped : skipped + CHUNK]


def places(tensor: Tensor, begin: int, count: int) -> tuple[Array, Array]:
    """For so many numbers from the `begin`th on: whether each is the tensor's, and its place in it.

    Where the steps lead to one number by two ways, all are taken for the tensor's.
    """
    import numpy

    rest = numpy.arange(begin, begin + count)
    belongs, place = numpy.ones(count, bool), numpy.zeros(count, numpy.int64)
    steps = _steps(tensor)
    if steps is None:
        return belongs, rest
    for stride, length, inner in steps:
        index = rest // stride
        belongs &= index < length
        rest -= index * stride
        place += index * inner
    return belongs & (rest == 0), place


def _steps(tensor: Tensor) -> list[tuple[int, int, int]] | None:
    """(stride, length, stride in C order), the widest first; None where steps meet."""
    inner, steps = 1, []
    for stride, length in zip(reversed(tensor.strides or ()), reversed(tensor.shape), strict=True):
        if length > 1 and stride:
            steps.append((stride, length, inner))
        inner *= length
    steps.sort()
    reached = 0
    for stride, length, _ in steps:
        if stride <= reached:
            return None
        reached += stride * (length - 1)
    return steps[::-1]

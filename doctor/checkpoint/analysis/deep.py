"""NaN and Inf in every stored value, detected by its bits."""

from __future__ import annotations

import contextlib
import importlib.util
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from doctor._util.processors import usable_processors
from doctor._util.records import Unknown
from doctor._util.units import shown
from doctor.checkpoint.analysis.checksums import damaged_records, differing_files
from doctor.checkpoint.analysis.matrices import examine_matrices
from doctor.checkpoint.analysis.nonfinite import (
    FINITE,
    FORMATS,
    PAIRS,
    Tally,
    as_float,
    first_counted,
    magnitude,
    tally,
)
from doctor.checkpoint.analysis.statistics import limits, measure
from doctor.checkpoint.analysis.strides import places
from doctor.checkpoint.analysis.value_ranges import Piece, Span, merge
from doctor.checkpoint.analysis.value_shares import (
    MOST,
    MOST_LARGE,
    MOST_OUTLIERS,
    WHOLE,
    of_share,
)
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.files import Directory, LocalDirectory, LocalFile, Source, read_into
from doctor.checkpoint.optimizer_slots import SQUARES
from doctor.checkpoint.records import Large, NonFinite, Outlier, Problem, Values
from doctor.checkpoint.tensors import Tensor

CHUNK = 512 * 1024
"""Bytes read and examined at once: few enough to stay in a core's cache in between."""

PIECE = 32 * CHUNK
"""Bytes that a thread takes at a time."""

PAGE = 4096

FAR = 1e6
"""Times the rest of a matrix, from which a value is an outlier. Our own number."""

MOMENT = 1e20
"""A square of a gradient of 1e10: no further update of Adam would be larger than 0. Our own
number."""

NEVER = 1 << 64

Progress = Callable[[int, int], None]
"""Called with the bytes done and the bytes in all, from one thread at a time."""

_MASK = re.compile(r".*mask(?:ed)?(?:_bias)?|.*(?:attn|attention)_bias")
_ATTENTION = re.compile(r".*(?:attn|attention)")

CHANGED = "was changed while its values were read"


def scan_values(
    directory: Directory,
    tensors: Iterable[Tensor],
    threads: int | None = None,
    progress: Progress | None = None,
    download: bool = False,
    *,
    further: Sequence[Tensor] = (),
    moments: Sequence[Tensor] = (),
    share: tuple[int, int] = WHOLE,
) -> Values | Unknown:
    """Every value of tensors that lie in `directory`, for which all their bytes are read.

    `tensors` are the model's, `further` those of other state_dicts beside it, `moments` those of
    the optimizer's state: a value is looked at once, whatever it is part of.
    `share`: which of how many; all shares together look at every value once (`join_values`).
    `threads`: one for each processor that this process may use, unless it says otherwise.
    Unknown where numpy is missing, and for files elsewhere unless `download` allows it. Never
    raises for what is in the files: one that is cut short or changed meanwhile is a problem.
    """
    began = time.perf_counter()
    model = list(tensors)
    every = [*model, *further, *moments]
    checked = [tensor for tensor in every if tensor.dtype in FORMATS]
    if importlib.util.find_spec("numpy") is None:
        return Unknown(reason="looking at every value needs numpy, which is not installed")
    spans = merge(checked)
    if not (download or isinstance(directory, LocalDirectory)):
        total = sum(span.end - span.begin for span in spans)
        text = f"looking at every value would download {total:,} bytes"
        return Unknown(reason=f"{shown(directory.address, 300)} is not on this machine: {text}")
    count = threads or usable_processors()
    magnitudes = measure(directory, model)
    of_moments = {each: MOMENT / FAR for each in moments if each.dtype in ("F32", "BF16", "F64")}
    beyond = limits({**magnitudes.rest, **of_moments}, FAR)
    work = _Work(directory, spans, progress, _LimitOf(spans, beyond, moments))
    work.divide(count, share)
    matrices = examine_matrices(directory, () if share[0] else model)
    differing = differing_files(directory, _files(model, spans, share), count)
    return Values(
        tensors=len(checked),
        bytes=work.read,
        exempt=sum(tensor.dtype in FINITE for tensor in every),
        unchecked=_unchecked(every),
        **_summaries(work.tallies),
        fp16_values=sum(tensor.elements for tensor in checked if tensor.dtype == "F16"),
        checksums=sum(not differs for differs in differing.values()),
        negative=tuple(tensor.name[:500] for tensor in work.negative)[:MOST_OUTLIERS],
        outliers=tuple(_outliers(work.largest, magnitudes.rest)),
        layers=magnitudes.table(),
        damaged_records=tuple(damaged_records(directory, _files(every, spans, share))),
        differing=tuple(shown(file) for file, differs in differing.items() if differs)[:MOST],
        constant=tuple(matrices.constant),
        copies=tuple(matrices.copies),
        zero_ranges=tuple(matrices.zero_ranges),
        further=sum(tensor.dtype in FORMATS for tensor in further),
        moments=sum(tensor.dtype in FORMATS for tensor in moments),
        problems=tuple(work.problems()),
        threads=count,
        seconds=time.perf_counter() - began,
    )


def _unchecked(tensors: list[Tensor]) -> dict[str, int]:
    """Dtype -> the number of tensors whose values cannot be looked at."""
    dtypes = [each.dtype for each in tensors]
    unread = [dtype[:20] for dtype in dtypes if dtype not in FORMATS and dtype not in FINITE]
    return dict(Counter(unread))


def is_mask(name: str) -> bool:
    """Whether -inf is a right value for a tensor of this name."""
    *path, last = name.casefold().split(".")
    owner = path[-1] if path else ""
    return bool(_MASK.fullmatch(last) or (last == "bias" and _ATTENTION.fullmatch(owner)))


def _summaries(tallies: dict[Tensor, Tally]) -> dict[str, Any]:
    """Fields of Values, from what was counted."""
    every = sorted(tallies.items(), key=lambda item: (item[0].file, item[0].begin, item[0].name))
    bad = [_nonfinite(tensor, tally) for tensor, tally in every if tally.nonfinite]
    large = [(tensor, tally.large) for tensor, tally in every if tally.large]
    large.sort(key=lambda item: -item[1])
    return {
        "nonfinite": tuple(sorted(bad, key=lambda tensor: tensor.masks)[:MOST]),
        "nonfinite_tensors": sum(not tensor.masks for tensor in bad),
        "fp16_large": sum(count for _, count in large),
        "large": tuple(
            Large(name=tensor.name[:500], values=tensor.elements, large=count)
            for tensor, count in large[:MOST_LARGE]
        ),
    }


def _nonfinite(tensor: Tensor, counted: Tally) -> NonFinite:
    pair = 2 if tensor.dtype in PAIRS else 1
    return NonFinite(
        name=tensor.name[:500],
        file=shown(tensor.file),
        dtype=tensor.dtype,
        values=tensor.elements * pair,
        nan=counted.nan,
        plus_inf=counted.plus_inf,
        minus_inf=counted.minus_inf,
        first=(counted.first or 0) // pair,
        masks=counted.nonfinite == counted.minus_inf and is_mask(tensor.name),
    )


def _outliers(
    largest: dict[Tensor, tuple[int, float]], rest: dict[Tensor, float]
) -> Iterator[Outlier]:
    named = sorted(largest.items(), key=lambda item: (item[0].file, item[0].begin))
    for tensor, (count, value) in named[:MOST_OUTLIERS]:
        if not is_mask(tensor.name):
            yield Outlier(
                name=tensor.name[:500],
                file=shown(tensor.file),
                values=count,
                largest=value,
                rest=rest.get(tensor, MOMENT),
            )


class _LimitOf:
    """The magnitudes from which values of a matrix are far beyond the rest of it, as bits.

    And which tensors hold no negative values.
    """

    def __init__(self, spans: list[Span], of: dict[Tensor, int], moments: Sequence[Tensor]) -> None:
        self.of = of
        self.never_negative = {
            each
            for each in moments
            if each.name.rpartition(": ")[2] in SQUARES and each.dtype in ("F32", "BF16", "F16")
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


class _Work:
    """Pieces that threads take turn by turn, and what they found in them."""

    def __init__(
        self, directory: Directory, spans: list[Span], progress: Progress | None, limits: _LimitOf
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
        mine = of_share(every, _bytes_of, share)
        self.total = sum(map(_bytes_of, mine))
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

    def _count(self, piece: Piece, at: int, data: Any) -> None:
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

    def _compare(self, piece: Piece, at: int, data: Any) -> None:
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

    def _look_at_signs(self, piece: Piece, at: int, data: Any) -> None:
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


def _values(piece: Piece, at: int, data: Any) -> Any:
    """A tensor's share of a chunk that begins at `at`, as unsigned numbers."""
    size = FORMATS[piece.tensor.dtype].size
    begin, end = max(piece.begin, at), min(piece.end, at + data.size)
    return data[begin - at : end - at - (end - begin) % size].view(f"u{size}")


def _bytes_of(piece: tuple[Span, int]) -> int:
    span, begin = piece
    return min(PIECE, span.end - begin)


def _files(tensors: Iterable[Tensor], spans: list[Span], share: tuple[int, int]) -> list[str]:
    """The files of these tensors whose checksums a share computes, sorted."""
    sizes: Counter[str] = Counter()
    for span in spans:
        sizes[span.file] += span.end - span.begin
    return of_share(sorted({tensor.file for tensor in tensors}), sizes.__getitem__, share)


def _aligned() -> object:
    """A buffer of bytes that begins with a page."""
    import numpy

    whole = numpy.empty(CHUNK + PAGE, numpy.uint8)
    skipped = -whole.ctypes.data % PAGE
    return whole[skipped : skipped + CHUNK]

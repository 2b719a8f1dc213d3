"""Samples of every matrix and vector: magnitudes by layer and part, and change since a baseline.

Up to SAMPLE bytes of each tensor are read, in windows over its whole length, so a table over 141 GB
costs no more than its number of tensors. What a window does not hold is not in the figures.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from statistics import median
from typing import TYPE_CHECKING, Any

from doctor.checkpoint.analysis.nonfinite import FORMATS
from doctor.checkpoint.analysis.tensor_names import part_of
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.files import Directory
from doctor.checkpoint.io.open_files import OpenFiles
from doctor.checkpoint.records import Kind, LayerChange, LayerValues, TensorChange
from doctor.checkpoint.tensors import Tensor

if TYPE_CHECKING:
    from doctor.checkpoint.analysis.arithmetic import Array

WINDOW, WINDOWS = 2 << 10, 4
"""Bytes of a window, and windows of a tensor."""

MOST = 20_000
"""Tensors that are sampled; a model has some ten per layer, or ten per expert."""

MOST_ROWS = 2_000

MOST_CHANGED = 100

WIDTHS = {"BF16": 2, "F16": 2, "F32": 4, "F64": 8}

REST = 0.999
"""The share of a matrix's sample that its largest values are compared with."""

_LAYER = re.compile(r"(?:^|\.)(\d+)\.")

Sampled = tuple[Tensor, Any]
"""A tensor and its sample, an array of float64 that may hold NaN and Inf."""


def layer_of(tensor: Tensor) -> str:
    """The number of its layer, "" outside of the numbered ones."""
    match = _LAYER.search(tensor.name)
    return match[1] if match else ""


def samples(directory: Directory, tensors: Iterable[Tensor]) -> Iterator[Sampled]:
    """The float tensors that lie in one piece. Files that fail are left out."""
    chosen = (tensor for tensor in tensors if _can_be_sampled(tensor))
    with OpenFiles(directory) as files:
        for tensor in islice(chosen, MOST):
            with contextlib.suppress(CheckpointError):
                yield tensor, _sample(files, tensor)


def _can_be_sampled(tensor: Tensor) -> bool:
    single = not tensor.parts and tensor.strides is None
    return single and tensor.dtype in WIDTHS and tensor.elements > 0


def _sample(files: OpenFiles, tensor: Tensor) -> Array:
    import numpy

    source, size = files.source(tensor.file), tensor.end - tensor.begin
    if size <= WINDOW * WINDOWS:
        data = source.read(size, tensor.begin)
    else:
        step = (size - WINDOW) // (WINDOWS - 1) // 16 * 16
        data = b"".join(
            source.read(WINDOW, tensor.begin + number * step) for number in range(WINDOWS)
        )
    if len(data) != min(size, WINDOW * WINDOWS):
        raise CheckpointError("damaged", "ended while its values were read")
    if tensor.dtype == "BF16":
        wide = numpy.frombuffer(data, "<u2").astype("<u4") << 16
        return wide.view("<f4").astype("f8")
    kind = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}[tensor.dtype]
    return numpy.frombuffer(data, kind).astype("f8")


@dataclass(slots=True)
class _Row:
    """What the tensors of one part of one layer have in common."""

    tensors: int = 0
    elements: int = 0
    sampled: int = 0
    least: float = float("inf")
    largest: float = float("-inf")
    squares: float = 0.0
    """Of the whole tensors, by their samples."""
    zeros: int = 0


@dataclass(slots=True)
class Magnitudes:
    """The rows of the table, and what each matrix holds beside its largest values."""

    rows: dict[tuple[str, Kind], _Row] = field(default_factory=dict)
    rest: dict[Tensor, float] = field(default_factory=dict)
    """Matrix -> a magnitude that nearly all of its sample is below."""

    def table(self) -> tuple[LayerValues, ...]:
        """By layer, those outside of the numbered ones first."""
        order = sorted(self.rows.items(), key=lambda item: (int(item[0][0] or -1), item[0][1]))
        return tuple(_values(key, row) for key, row in order[:MOST_ROWS])


def measure(directory: Directory, tensors: Iterable[Tensor]) -> Magnitudes:
    """The magnitudes of all, by layer and part."""
    import numpy

    magnitudes = Magnitudes()
    for tensor, values in samples(directory, tensors):
        finite = values[numpy.isfinite(values)]
        if not finite.size:
            continue
        row = magnitudes.rows.setdefault((layer_of(tensor)[:9], part_of(tensor)), _Row())
        row.tensors += 1
        row.elements += tensor.elements
        row.sampled += finite.size
        row.least = min(row.least, float(finite.min()))
        row.largest = max(row.largest, float(finite.max()))
        with numpy.errstate(over="ignore", invalid="ignore"):
            row.squares += float(numpy.square(finite).mean()) * tensor.elements
        row.zeros += int(finite.size - numpy.count_nonzero(finite))
        if len(tensor.shape) > 1 and finite.size > 16:
            place = min(int(REST * finite.size), finite.size - 2)
            magnitudes.rest[tensor] = float(numpy.partition(numpy.abs(finite), place)[place])
    return magnitudes


def _values(key: tuple[str, Kind], row: _Row) -> LayerValues:
    return LayerValues(
        layer=key[0],
        kind=key[1],
        tensors=row.tensors,
        least=row.least,
        largest=row.largest,
        rms=(row.squares / row.elements) ** 0.5,
        norm=row.squares**0.5,
        zeros=row.zeros / row.sampled,
    )


def limits(rest: Mapping[Tensor, float], times: float) -> dict[Tensor, int]:
    """The bits of the magnitude that is `times` the rest of each matrix, as unsigned numbers.

    Matrices without such a magnitude in their dtype are left out.
    """
    import numpy

    bits: dict[Tensor, int] = {}
    for tensor, value in rest.items():
        format_ = FORMATS[tensor.dtype]
        limit = value * times
        with numpy.errstate(over="ignore"):
            if tensor.dtype == "BF16":
                code = int(numpy.float32(limit).view("u4")) >> 16
            else:
                kind = {2: "f2", 4: "f4", 8: "f8"}[format_.size]
                code = int(numpy.array(limit, kind).view(f"u{format_.size}"))
        if value > 0 and code < format_.top:
            bits[tensor] = code
    return bits


@dataclass(slots=True)
class Changes:
    """How far the samples of a checkpoint are from those of its baseline."""

    sums: dict[tuple[str, Kind], list[float]] = field(default_factory=dict)
    """Squares of the differences, of the baseline, and the number of tensors."""
    matrices: list[TensorChange] = field(default_factory=list)

    def add(self, tensor: Tensor, values: Array, before: Array) -> None:
        import numpy

        both = numpy.isfinite(values[: before.size]) & numpy.isfinite(before[: values.size])
        values, before = values[: both.size][both], before[: both.size][both]
        total = self.sums.setdefault((layer_of(tensor)[:9], part_of(tensor)), [0.0, 0.0, 0])
        with numpy.errstate(over="ignore", invalid="ignore"):
            moved, size, now = (
                float(numpy.square(each).sum()) for each in (values - before, before, values)
            )
            along = float((values * before).sum())
        total[0], total[1], total[2] = total[0] + moved, total[1] + size, total[2] + 1
        if len(tensor.shape) > 1 and 0 < size < math.inf and moved < math.inf:
            self.matrices.append(
                TensorChange(
                    name=tensor.name[:500],
                    kind=part_of(tensor),
                    layer=layer_of(tensor)[:9],
                    relative=(moved / size) ** 0.5,
                    cosine=along / (size * now) ** 0.5 if now else 0.0,
                    factor=(now / size) ** 0.5,
                )
            )

    def fields(self) -> dict[str, Any]:
        """Fields of Movement."""
        order = sorted(self.sums.items(), key=lambda item: (int(item[0][0] or -1), item[0][1]))
        most = sorted(self.matrices, key=lambda each: -each.relative)[:MOST_CHANGED]
        return {
            "layers": tuple(
                LayerChange(
                    layer=key[0],
                    kind=key[1],
                    tensors=int(count),
                    relative=(moved / size) ** 0.5 if size else None,
                )
                for key, (moved, size, count) in order[:MOST_ROWS]
            ),
            "matrices": len(self.matrices),
            "median": median(each.relative for each in self.matrices) if self.matrices else None,
            "most_changed": tuple(sorted(most, key=lambda each: each.name)),
        }


def changes(
    now: Directory,
    tensors: Iterable[Tensor],
    then: Directory,
    earlier: Mapping[str, Tensor],
    name: Callable[[str], str],
) -> Changes:
    """The change of each matrix and each part of each layer, relative to what it was."""
    found = Changes()
    pairs = {
        tensor: other
        for tensor in tensors
        if (other := earlier.get(name(tensor.name))) is not None
        and other.shape == tensor.shape
        and _can_be_sampled(other)
    }
    with OpenFiles(then) as files:
        for tensor, values in samples(now, pairs):
            with contextlib.suppress(CheckpointError):
                found.add(tensor, values, _sample(files, pairs[tensor]))
    return found

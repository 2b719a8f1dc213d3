"""Matrices of one value, matrices that are copies of another, and stretches of zeros in a file.

Small windows of every matrix are read, one for each STEP bytes. Only where these agree is the whole
matrix read, so what is reported was compared byte by byte. A stretch of zeros that is shorter than
STEP may lie between two windows and not be noticed.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from doctor._util.units import shown
from doctor.checkpoint.analysis.nonfinite import FORMATS
from doctor.checkpoint.analysis.sizes import embeddings
from doctor.checkpoint.analysis.tensor_names import part_of
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.files import Directory
from doctor.checkpoint.io.open_files import OpenFiles
from doctor.checkpoint.records import Constant, Copy, ZeroRange
from doctor.checkpoint.tensors import Tensor

WINDOW = 4096
"""Bytes of a window; a matrix of fewer than three is read whole."""

STEP = 4 << 20
"""Bytes from one window to the next."""

ROWS, ROW = 2_000, 64
"""Rows of an embedding that are looked at, and bytes of each."""

BLOCK = 256 << 10
"""Bytes that are read at once where a matrix is read whole."""

MOST = 1_000
"""Matrices of one value, copies and stretches that are listed."""


class Stretch(NamedTuple):
    """Zeros in a matrix, from and to which byte of its file."""

    tensor: Tensor
    begin: int
    end: int

    @property
    def whole(self) -> bool:
        """Whether the matrix holds nothing else."""
        return (self.begin, self.end) == (self.tensor.begin, self.tensor.end)


@dataclass(slots=True)
class Matrices:
    """What was noticed."""

    constant: list[Constant] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    zero_ranges: list[ZeroRange] = field(default_factory=list)
    examined: int = 0
    zero: int = 0
    """Of these, those of zeros alone."""
    zero_rows: dict[str, float] = field(default_factory=dict)
    """Embedding -> the share of its rows that are zeros, where there are any."""


def examine_matrices(directory: Directory, tensors: Iterable[Tensor]) -> Matrices:
    """The float matrices among the tensors that lie in one piece. Files that fail are left out."""
    matrices = Matrices()
    stretches: list[Stretch] = []
    earlier: dict[tuple[object, ...], Tensor] = {}
    unique = {(each.file, each.begin): each for each in tensors if _is_matrix(each)}
    with OpenFiles(directory) as files:
        for _, tensor in sorted(unique.items()):
            with contextlib.suppress(CheckpointError):
                windows = [(at, _read(files, tensor, at, size)) for at, size in _windows(tensor)]
                matrices.examined += 1
                if value := _constant(files, tensor, [data for _, data in windows]):
                    zero = not value.strip(b"\0")
                    matrices.zero += zero
                    matrices.constant.append(Constant(name=tensor.name[:500], zero=zero))
                    stretches += [Stretch(tensor, tensor.begin, tensor.end)] * zero
                    continue
                stretches += _stretches(files, tensor, windows)
                if original := _original(files, tensor, windows, earlier):
                    matrices.copies.append(Copy(name=tensor.name[:500], of=original.name[:500]))
        matrices.zero_ranges += _joined(files, stretches)
        for tensor in embeddings(unique.values()):
            with contextlib.suppress(CheckpointError):
                if share := _zero_rows(files, tensor):
                    matrices.zero_rows[tensor.name[:500]] = share
    del matrices.constant[MOST:], matrices.copies[MOST:], matrices.zero_ranges[MOST:]
    return matrices


def _is_matrix(tensor: Tensor) -> bool:
    single = not tensor.parts and tensor.strides is None
    lengths = [length for length in tensor.shape if length > 1]
    return single and len(lengths) > 1 and tensor.dtype in FORMATS


def _read(files: OpenFiles, tensor: Tensor, at: int, size: int) -> bytes:
    """Raises CheckpointError, also where the file ends before."""
    data = files.source(tensor.file).read(size, at)
    if len(data) != size:
        raise CheckpointError("damaged", f"ended at byte {at + len(data):,}")
    return data


def _windows(tensor: Tensor) -> Iterator[tuple[int, int]]:
    """Where each window begins, and its bytes."""
    size = tensor.end - tensor.begin
    if size <= 3 * WINDOW:
        yield tensor.begin, size
        return
    last = tensor.end - WINDOW
    middle = tensor.begin + size // 2 // 16 * 16
    starts = {*range(tensor.begin, last, STEP), middle, last}
    yield from ((at, WINDOW) for at in sorted(min(start, last) for start in starts))


def _blocks(files: OpenFiles, tensor: Tensor) -> Iterator[bytes]:
    for at in range(tensor.begin, tensor.end, BLOCK):
        yield _read(files, tensor, at, min(BLOCK, tensor.end - at))


def _constant(files: OpenFiles, tensor: Tensor, windows: list[bytes]) -> bytes:
    """The bytes of the one value that all elements have, b"" where they differ."""
    value = windows[0][: FORMATS[tensor.dtype].size]

    def equal(data: bytes) -> bool:
        return data == value * (len(data) // len(value))

    return value if all(map(equal, windows)) and all(map(equal, _blocks(files, tensor))) else b""


def _stretches(
    files: OpenFiles, tensor: Tensor, windows: list[tuple[int, bytes]]
) -> Iterator[Stretch]:
    """Zeros around a window of zeros, or at the end of a matrix that is read whole."""
    reached = tensor.begin
    for at, data in windows:
        zeros = len(data) - len(data.rstrip(b"\0"))
        if zeros < min(len(data), WINDOW) or at + len(data) <= reached:
            continue
        begin = _edge(files, tensor, at + len(data) - zeros, -1)
        reached = _edge(files, tensor, at + len(data), 1)
        yield Stretch(tensor, begin, reached)


def _edge(files: OpenFiles, tensor: Tensor, at: int, direction: int) -> int:
    """Where zeros end that lie before or behind a place."""
    limit = tensor.end if direction > 0 else tensor.begin
    while at != limit:
        size = min(BLOCK, abs(limit - at))
        data = _read(files, tensor, min(at, at + direction * size), size)
        rest = data.lstrip(b"\0") if direction > 0 else data.rstrip(b"\0")
        at += direction * (size - len(rest))
        if rest:
            return at
    return at


def _original(
    files: OpenFiles,
    tensor: Tensor,
    windows: list[tuple[int, bytes]],
    earlier: dict[tuple[object, ...], Tensor],
) -> Tensor | None:
    """A matrix before it that has the same bytes elsewhere; None where there is none."""
    digest = hashlib.blake2b(b"".join(data for _, data in windows), digest_size=16).digest()
    other = earlier.setdefault((tensor.dtype, tensor.shape, digest), tensor)
    if other is tensor:
        return None
    pairs = zip(_blocks(files, other), _blocks(files, tensor), strict=True)
    return other if all(one == two for one, two in pairs) else None


def _zero_rows(files: OpenFiles, tensor: Tensor) -> float:
    """The share of zeros among rows spread over an embedding, by the first bytes of each."""
    size = (tensor.end - tensor.begin) // tensor.shape[0]
    starts = range(tensor.begin, tensor.end, size * max(tensor.shape[0] // ROWS, 1))
    zero = (not _read(files, tensor, at, min(size, ROW)).strip(b"\0") for at in starts)
    return sum(zero) / len(starts)


def _joined(files: OpenFiles, stretches: list[Stretch]) -> Iterator[ZeroRange]:
    """Stretches of a file that only zeros separate, where not all of them are whole matrices."""
    group: list[Stretch] = []
    ends = sorted(stretches, key=lambda each: (each.tensor.file, each.begin))
    for stretch, following in pairwise([*ends, None]):
        assert stretch is not None
        group.append(stretch)
        if following is None or not _zeros_between(files, stretch, following):
            if not all(each.whole for each in group):
                yield _range(group)
            group = []


def _zeros_between(files: OpenFiles, first: Stretch, second: Stretch) -> bool:
    gap = second.begin - first.end
    if first.tensor.file != second.tensor.file or not 0 <= gap <= BLOCK:
        return False
    with contextlib.suppress(CheckpointError):
        return not files.source(first.tensor.file).read(gap, first.end).strip(b"\0")
    return False


def _range(group: list[Stretch]) -> ZeroRange:
    first = group[0]
    size, single = first.tensor.end - first.tensor.begin, len(group) == 1
    row = max(size // first.tensor.shape[0], 1)
    begin, end = (at - first.tensor.begin for at in (first.begin, first.end))
    rows = (begin // row, (end - 1) // row) if single and begin > 0 and end < size else None
    return ZeroRange(
        file=shown(first.tensor.file),
        begin=first.begin,
        end=group[-1].end,
        name=first.tensor.name[:500],
        kind=part_of(first.tensor),
        inside=first.begin > first.tensor.begin,
        matrices=len(group),
        rows=rows,
        share=(end - begin) / size if single else 0.0,
    )

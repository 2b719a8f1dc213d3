"""Which tensors changed between two checkpoints."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from doctor._util.records import Unknown
from doctor._util.units import shown
from doctor.checkpoint.analysis.attribution import plain
from doctor.checkpoint.analysis.float_decode import agree_when_rounded, floats
from doctor.checkpoint.analysis.origins import find_origins
from doctor.checkpoint.analysis.statistics import changes
from doctor.checkpoint.analysis.tensor_names import is_norm, part_of, role
from doctor.checkpoint.dtypes import BITS
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.files import Directory, Source, read_into
from doctor.checkpoint.io.open_files import OpenFiles
from doctor.checkpoint.records import TURNED, Incomparable, Kind, Movement, UnchangedRole
from doctor.checkpoint.tensors import Part, Tensor

UNRELATED = 0.3
"""Cosine below which a matrix is looked for elsewhere in the baseline. Our own number."""

FIRST = 64 * 1024
"""Bytes of a tensor that are compared before the rest of it is read."""

NEXT = 1 << 20
"""Bytes of the rest that are compared at a time."""

LARGEST = 1 << 22
"""Elements; norms of two dtypes that are longer are not compared."""

MOST_ROLES = 1000
MOST_NAMES = 100
FEW = 10

Progress = Callable[[int, int], None]
"""Called with the tensors done and the tensors in all."""

Pair = tuple[Tensor, Tensor]


def compare(
    directory: Directory,
    tensors: Iterable[Tensor],
    before: Directory,
    earlier: Iterable[Tensor],
    progress: Progress | None = None,
) -> Movement | Unknown:
    """Tensors of `directory` against the `earlier` ones of `before`, matched by name.

    64 KiB of each are read, and all of those that do not differ there. Unknown where no name is
    in both.
    """
    began = time.perf_counter()
    current, previous = _by_name(tensors), _by_name(earlier)
    pairs = [(tensor, previous[name]) for name, tensor in current.items() if name in previous]
    if not pairs:
        return Unknown(reason=f"no tensor has a name that one of {shown(before.address, 300)} has")
    pairs.sort(key=lambda pair: (pair[0].ranges[0], pair[0].name))
    with OpenFiles(directory) as current_files, OpenFiles(before) as previous_files:
        compared = _Compared(current_files, previous_files)
        for done, pair in enumerate(pairs):
            compared.look(*pair)
            if progress is not None:
                progress(done + 1, len(pairs))
    found = changes(directory, current.values(), before, previous, plain)
    lost = {each.name for each in found.matrices if each.cosine < UNRELATED}
    unlike = [each for each in current.values() if each.name[:500] in lost]
    added, removed = current.keys() - previous.keys(), previous.keys() - current.keys()
    return Movement(
        baseline=before.address,
        changed=compared.changed.total(),
        unchanged=sum(map(len, compared.unchanged.values())),
        incomparable=sum(map(len, compared.reasons.values())),
        added=len(added),
        added_names=tuple(name[:500] for name in sorted(added)[:FEW]),
        removed=len(removed),
        removed_names=tuple(name[:500] for name in sorted(removed)[:FEW]),
        kinds=compared.kinds(),
        **found.fields(),
        origins=find_origins(directory, unlike, before, previous),
        unchanged_roles=tuple(compared.unchanged_roles()),
        reasons=tuple(
            Incomparable(reason=reason, count=len(names), names=tuple(names[:FEW]))
            for reason, names in compared.reasons.items()
        ),
        bytes=compared.read,
        seconds=time.perf_counter() - began,
    )


def _by_name(tensors: Iterable[Tensor]) -> dict[str, Tensor]:
    by_name: dict[str, Tensor] = {}
    for tensor in tensors:
        by_name.setdefault(plain(tensor.name), tensor)
    return by_name


Role = tuple[str, Kind, str]
"""role, kind, dtype"""


@dataclass(slots=True)
class _Compared:
    """What was found so far; two buffers for each side."""

    now: OpenFiles
    then: OpenFiles
    changed: Counter[Role] = field(default_factory=Counter)
    unchanged: dict[Role, list[str]] = field(default_factory=dict)
    reasons: dict[str, list[str]] = field(default_factory=dict)
    read: int = 0
    _first: tuple[bytearray, bytearray] = field(
        default_factory=lambda: (bytearray(FIRST), bytearray(FIRST))
    )
    _next: tuple[bytearray, bytearray] = field(
        default_factory=lambda: (bytearray(NEXT), bytearray(NEXT))
    )

    def look(self, tensor: Tensor, earlier: Tensor) -> None:
        """Compare one tensor and note the result."""
        key = role(tensor.name)[:500], part_of(tensor), tensor.dtype
        try:
            same = self._same(tensor, earlier)
        except CheckpointError as error:
            self.reasons.setdefault(error.text, []).append(tensor.name[:500])
            return
        if same:
            self.unchanged.setdefault(key, []).append(tensor.name[:500])
        else:
            self.changed[key] += 1

    def kinds(self) -> dict[str, tuple[int, int]]:
        """kind -> how many changed, of how many compared."""
        changed, compared = Counter[str](), Counter[str]()
        for (_, kind, _), count in self.changed.items():
            changed[kind] += count
            compared[kind] += count
        for (_, kind, _), names in self.unchanged.items():
            compared[kind] += len(names)
        return {kind: (changed[kind], count) for kind, count in compared.most_common()}

    def unchanged_roles(self) -> list[UnchangedRole]:
        """Roles with unchanged tensors, most of these first."""
        most_first = sorted(self.unchanged.items(), key=lambda item: -len(item[1]))
        return [
            UnchangedRole(
                role=key[0],
                kind=key[1],
                dtype=key[2],
                count=len(names),
                compared=len(names) + self.changed[key],
                names=tuple(names[:MOST_NAMES]),
            )
            for key, names in most_first[:MOST_ROLES]
        ]

    def _same(self, tensor: Tensor, earlier: Tensor) -> bool:
        """Whether every bit is as it was. Raises CheckpointError if they cannot be compared."""
        if tensor.shape != earlier.shape:
            turned = tensor.shape == earlier.shape[::-1]
            raise CheckpointError("note", TURNED if turned else "the shape changed")
        if _steps(tensor) != _steps(earlier):
            raise CheckpointError("note", "they are stored in another order")
        if tensor.dtype != earlier.dtype:
            return self._same_values(tensor, earlier)
        return all(self._equal(*piece) for piece in _pieces(tensor.ranges, earlier.ranges))

    def _equal(self, part: Part, other: Part) -> bool:
        """Whether two ranges of one length hold the same bytes; ends at the first difference."""
        done, length = 0, part.end - part.begin
        buffers = self._first
        source, before = self.now.source(part.file), self.then.source(other.file)
        while done < length:
            buffer, other_buffer = buffers
            size = min(len(buffer), length - done)
            self._fill(source, buffer, size, part.begin + done)
            self._fill(before, other_buffer, size, other.begin + done)
            if (
                buffer != other_buffer
                if size == len(buffer)
                else buffer[:size] != other_buffer[:size]
            ):
                return False
            done, buffers = done + size, self._next
        return True

    def _fill(self, source: Source, buffer: bytearray, size: int, offset: int) -> None:
        got = read_into(source, memoryview(buffer)[:size], offset)
        self.read += got
        if got != size:
            raise CheckpointError("damaged", "a file ended before they did")

    def _same_values(self, tensor: Tensor, earlier: Tensor) -> bool:
        """The values of norms of two dtypes; other tensors are not compared."""
        changed = f"the dtype changed from {shown(earlier.dtype, 20)} to {shown(tensor.dtype, 20)}"
        if not (is_norm(tensor) and is_norm(earlier)) or tensor.elements > LARGEST:
            raise CheckpointError("note", changed)
        now = floats(tensor.dtype, self._whole(self.now, tensor))
        then = floats(earlier.dtype, self._whole(self.then, earlier))
        if now == then:
            return True
        if agree_when_rounded(now, then, tensor.dtype) or agree_when_rounded(
            then, now, earlier.dtype
        ):
            raise CheckpointError("note", f"{changed}, and rounding explains the difference")
        return False

    def _whole(self, opened: OpenFiles, tensor: Tensor) -> bytes:
        data = b"".join(
            opened.source(part.file).read(part.end - part.begin, part.begin)
            for part in tensor.ranges
        )
        self.read += len(data)
        if len(data) * 8 != tensor.elements * BITS[tensor.dtype]:
            raise CheckpointError("damaged", "a file ended before they did")
        return data


def _steps(tensor: Tensor) -> tuple[int, ...] | None:
    """Strides of the dimensions longer than 1; None for C order.

    Raises CheckpointError for gaps.
    """
    if tensor.strides is None:
        return None
    inner, plain = 1, True
    for length, stride in zip(reversed(tensor.shape), reversed(tensor.strides), strict=True):
        plain = plain and (length == 1 or stride == inner)
        inner *= length
    if plain:
        return None
    if tensor.stored_bytes * 8 != tensor.elements * BITS.get(tensor.dtype, 0):
        raise CheckpointError("note", "they are views with gaps in what is stored")
    steps = zip(tensor.shape, tensor.strides, strict=True)
    return tuple(stride for length, stride in steps if length != 1)


def _pieces(one: tuple[Part, ...], other: tuple[Part, ...]) -> Iterator[tuple[Part, Part]]:
    """Both cut where either ends, so that each pair has one length. Raises CheckpointError."""
    if sum(part.end - part.begin for part in one) != sum(part.end - part.begin for part in other):
        raise CheckpointError("note", "the number of bytes changed")
    remaining, other_remaining = list(reversed(one)), list(reversed(other))
    while remaining and other_remaining:
        range_, other_range = remaining.pop(), other_remaining.pop()
        size = min(range_.end - range_.begin, other_range.end - other_range.begin)
        yield (
            range_._replace(end=range_.begin + size),
            other_range._replace(end=other_range.begin + size),
        )
        for rest, part in ((remaining, range_), (other_remaining, other_range)):
            if part.end - part.begin > size:
                rest.append(part._replace(begin=part.begin + size))

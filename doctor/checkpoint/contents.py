"""All that `doctor scan` reads of a checkpoint, with notes of its progress."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from doctor._util.records import Unknown
from doctor._util.units import shown
from doctor.checkpoint.analysis.tensor_names import Kind, part_of
from doctor.checkpoint.io.files import Directory
from doctor.checkpoint.io.stages import Stage
from doctor.checkpoint.io.urls import redact_url
from doctor.checkpoint.records import Checkpoint, Moves, Share, Values
from doctor.checkpoint.scan import scan
from doctor.checkpoint.tensors import Shard, Tensor, distinct

Notify = Callable[[dict[str, Any]], None]

NOTE_INTERVAL = 0.1
"""Seconds between two progress notes."""

BATCH = 2_000
"""Tensors in one note."""

MOST_DTYPES = 100
"""Dtypes that are counted one by one; an untrusted file can invent more."""

ORDER: tuple[Kind, ...] = ("embedding", "attention", "MLP", "norm", "head", "other")


class ScanRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to read."""

    path: str
    baseline: str | None = None
    deep: bool = False
    tensors: bool = False
    """Send notes of all tensors: {"tensors": [[name, dtype, shape, file, bytes], ...]}."""


class TensorCollector:
    """Keeps the directory and the tensors of one scan."""

    directory: Directory
    shards: Sequence[Shard] = ()

    def collect(self, directory: Directory, shards: Sequence[Shard]) -> None:
        self.directory, self.shards = directory, shards

    @property
    def tensors(self) -> Iterator[Tensor]:
        return (tensor for shard in self.shards for tensor in shard.tensors)


class ProgressThrottle:
    """Progress notes, no more often than NOTE_INTERVAL."""

    def __init__(self, notify: Notify) -> None:
        self.notify = notify
        self.last = 0.0

    def __call__(self, doing: str, done: int, total: int | None, unit: str) -> None:
        now = time.monotonic()
        if now - self.last >= NOTE_INTERVAL or done == total:
            self.last = now
            self.notify({"doing": doing, "done": done, "total": total, "unit": unit})


def read(request: ScanRequest, stage: Stage, notify: Notify) -> Checkpoint | Unknown:
    """Headers, and on request every value and the comparison. `notify` receives progress."""
    progress, current = ProgressThrottle(notify), TensorCollector()
    checkpoint = scan(request.path, _counted(stage, progress), current.collect)
    if isinstance(checkpoint, Unknown):
        return checkpoint
    if request.tensors:
        _notify_tensors(current, notify)
    return msgspec.structs.replace(
        checkpoint,
        shares=shares(distinct(current.tensors) if checkpoint.pickles else current.tensors),
        values=_values(current, stage, progress) if request.deep else None,
        moves=_moves(current, request.baseline, stage, progress) if request.baseline else None,
    )


def shares(tensors: Iterable[Tensor]) -> tuple[Share, ...]:
    """What the tensors of each dtype in each part of a model come to."""
    found: dict[tuple[str, Kind], list[int]] = {}
    dtypes: set[str] = set()
    for tensor in tensors:
        known = tensor.dtype in dtypes or len(dtypes) < MOST_DTYPES
        dtype = tensor.dtype if known else "others"
        dtypes.add(dtype)
        sums = found.setdefault((dtype, part_of(tensor)), [0, 0, 0])
        sums[0] += 1
        sums[1] += tensor.elements
        sums[2] += tensor.stored_bytes
    size = {name: sum(s[2] for (dtype, _), s in found.items() if dtype == name) for name in dtypes}
    order = sorted(found, key=lambda key: (-size[key[0]], key[0], ORDER.index(key[1])))
    return tuple(
        Share(
            dtype=shown(key[0], 40),
            kind=key[1],
            tensors=found[key][0],
            parameters=found[key][1],
            bytes=found[key][2],
        )
        for key in order
    )


def _notify_tensors(current: TensorCollector, notify: Notify) -> None:
    rows = [
        [tensor.name[:1000], tensor.dtype[:100], tensor.shape, tensor.file, tensor.stored_bytes]
        for tensor in current.tensors
    ]
    for start in range(0, len(rows), BATCH):
        notify({"tensors": rows[start : start + BATCH]})


def _counted(stage: Stage, progress: ProgressThrottle) -> Stage:
    """The same stages, and a note after each of them."""
    done = 0

    @contextlib.contextmanager
    def counted(name: str) -> Iterator[None]:
        nonlocal done
        with stage(name):
            yield
        done += name.startswith("read ")
        progress(name, done, None, "files")

    return counted


def _values(current: TensorCollector, stage: Stage, progress: ProgressThrottle) -> Values | Unknown:
    from doctor.checkpoint.analysis.deep import scan_values

    def report(done: int, total: int) -> None:
        progress("read every value", done, total, "bytes")

    with stage("read every value"):
        return scan_values(current.directory, list(current.tensors), progress=report)


def _moves(
    current: TensorCollector, baseline: str, stage: Stage, progress: ProgressThrottle
) -> Moves | Unknown:
    from doctor.checkpoint.analysis.baseline import compare

    before = TensorCollector()
    found = scan(baseline, _counted(stage, progress), before.collect)
    if isinstance(found, Unknown):
        return Unknown(reason=f"the baseline: {found.reason}")
    if not before.shards:
        reason = found.not_inspectable or "no header could be read"
        return Unknown(reason=f"the baseline {shown(redact_url(baseline), 300)}: {reason}")

    def report(done: int, total: int) -> None:
        progress("compare with the baseline", done, total, "tensors")

    with stage("compare with the baseline"):
        moves = compare(
            current.directory, current.tensors, before.directory, before.tensors, report
        )
    if isinstance(moves, Unknown):
        return moves
    return msgspec.structs.replace(moves, baseline=redact_url(baseline))

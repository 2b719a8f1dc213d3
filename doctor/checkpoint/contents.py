"""All that `doctor scan` asks of a checkpoint, told while it is read."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from doctor._util.records import Unknown
from doctor._util.units import shown
from doctor.checkpoint.analysis.tensor_names import Kind, part_of
from doctor.checkpoint.io.addresses import redacted
from doctor.checkpoint.io.files import Folder
from doctor.checkpoint.reader import Stage
from doctor.checkpoint.records import Checkpoint, Moves, Share, Values
from doctor.checkpoint.scan import scan
from doctor.checkpoint.tensors import Shard, Tensor, distinct, stored

Told = Callable[[dict[str, Any]], None]

OFTEN = 0.1
"""Seconds between two notes of how far it is."""

BATCH = 2_000
"""Tensors in one note."""

MOST_DTYPES = 100
"""Dtypes that are told apart; strangers can invent more."""

ORDER: tuple[Kind, ...] = ("embedding", "attention", "MLP", "norm", "head", "other")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What to look at."""

    path: str
    baseline: str | None = None
    deep: bool = False
    tensors: bool = False
    """Tell every tensor in notes: {"tensors": [[name, dtype, shape, file, bytes], ...]}."""


class Read:
    """The folder and the tensors of one scan."""

    folder: Folder
    shards: Sequence[Shard] = ()

    def seen(self, folder: Folder, shards: Sequence[Shard]) -> None:
        self.folder, self.shards = folder, shards

    @property
    def tensors(self) -> Iterator[Tensor]:
        return (tensor for shard in self.shards for tensor in shard.tensors)


class Pace:
    """Notes of how far it is, and no more of them than a terminal can show."""

    def __init__(self, told: Told) -> None:
        self.told = told
        self.last = 0.0

    def __call__(self, doing: str, done: int, total: int | None, unit: str) -> None:
        now = time.monotonic()
        if now - self.last >= OFTEN or done == total:
            self.last = now
            self.told({"doing": doing, "done": done, "total": total, "unit": unit})


def read(wanted: Wanted, stage: Stage, told: Told) -> Checkpoint | Unknown:
    """Headers, and where they are wanted values and what moved. `told` hears how far it is."""
    pace, here = Pace(told), Read()
    found = scan(wanted.path, _counted(stage, pace), here.seen)
    if isinstance(found, Unknown):
        return found
    if wanted.tensors:
        _tell(here, told)
    return msgspec.structs.replace(
        found,
        shares=shares(distinct(here.tensors) if found.pickles else here.tensors),
        values=_values(here, stage, pace) if wanted.deep else None,
        moves=_moves(here, wanted.baseline, stage, pace) if wanted.baseline else None,
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
        sums[2] += stored(tensor)
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


def _tell(here: Read, told: Told) -> None:
    rows = [
        [tensor.name[:1000], tensor.dtype[:100], tensor.shape, tensor.file, stored(tensor)]
        for tensor in here.tensors
    ]
    for start in range(0, len(rows), BATCH):
        told({"tensors": rows[start : start + BATCH]})


def _counted(stage: Stage, pace: Pace) -> Stage:
    """The same stages, and a note after each of them."""
    done = 0

    @contextlib.contextmanager
    def counted(name: str) -> Iterator[None]:
        nonlocal done
        with stage(name):
            yield
        done += name.startswith("read ")
        pace(name, done, None, "files")

    return counted


def _values(here: Read, stage: Stage, pace: Pace) -> Values | Unknown:
    from doctor.checkpoint.analysis.deep import scan_values

    def progress(done: int, total: int) -> None:
        pace("read every value", done, total, "bytes")

    with stage("read every value"):
        return scan_values(here.folder, list(here.tensors), progress=progress)


def _moves(here: Read, baseline: str, stage: Stage, pace: Pace) -> Moves | Unknown:
    from doctor.checkpoint.analysis.baseline import compare

    before = Read()
    found = scan(baseline, _counted(stage, pace), before.seen)
    if isinstance(found, Unknown):
        return Unknown(reason=f"the baseline: {found.reason}")
    if not before.shards:
        reason = found.not_inspectable or "no header could be read"
        return Unknown(reason=f"the baseline {shown(redacted(baseline), 300)}: {reason}")

    def progress(done: int, total: int) -> None:
        pace("compare with the baseline", done, total, "tensors")

    with stage("compare with the baseline"):
        moves = compare(here.folder, here.tensors, before.folder, before.tensors, progress)
    if isinstance(moves, Unknown):
        return moves
    return msgspec.structs.replace(moves, baseline=redacted(baseline))

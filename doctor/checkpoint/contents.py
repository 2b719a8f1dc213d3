"""All that `doctor scan` reads of a checkpoint, with notes of its progress."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from doctor._util.records import Unknown
from doctor._util.units import shown
from doctor.checkpoint.analysis.value_shares import WHOLE
from doctor.checkpoint.collected import (
    Notify,
    ProgressThrottle,
    TensorCollector,
    counted_stages,
    unread,
)
from doctor.checkpoint.io.files import Directory, LocalDirectory
from doctor.checkpoint.io.stages import Stage
from doctor.checkpoint.io.urls import redact_url
from doctor.checkpoint.layouts.settings import changed_settings
from doctor.checkpoint.merges import ModelPaths, read_equality, read_merge
from doctor.checkpoint.records import Checkpoint, Continuation, Movement, Plan, Values
from doctor.checkpoint.runs import read_run, run_checkpoints, subdirectory
from doctor.checkpoint.scan import scan

BATCH = 2_000
"""Tensors in one note."""


SMALL = 256 << 20
"""Bytes of values that are read without `deep`: 0.1 s from the page cache. Our own number."""


FEW = 5_000
"""Tensors that are looked at without `deep`: each costs some 0.1 ms. Our own number."""


class ScanRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to read."""

    path: str
    baseline: str | None = None
    deep: bool = False
    tensors: bool = False
    """Send notes of all tensors: {"tensors": [[name, dtype, shape, file, bytes], ...]}."""
    merged_from: str | None = None
    """The base of a merge."""
    adapters: tuple[tuple[str, float], ...] = ()
    """Paths and weights."""
    equals: str | None = None
    """A checkpoint that should hold the same values."""
    plan: Plan | None = None
    """How the run is to be continued."""
    share: tuple[int, int] = (0, 1)
    """With `deep`: which of how many shares of the values is read."""


def read(request: ScanRequest, stage: Stage, notify: Notify) -> Checkpoint | Unknown:
    """Headers, and on request every value and the comparison. `notify` receives progress.

    Unknown where no weights are at the path.
    """
    progress, current = ProgressThrottle(notify), TensorCollector()
    counted = counted_stages(stage, progress)
    checkpoint = scan(request.path, counted, current.collect)
    if isinstance(checkpoint, Unknown):
        if names := run_checkpoints(request.path):
            checkpoint = read_run(request.path, names, counted, current.collect)
        elif inside := subdirectory(request.path):
            request = msgspec.structs.replace(request, path=inside)
            checkpoint = scan(inside, counted, current.collect)
    if isinstance(checkpoint, Unknown):
        return checkpoint
    if request.tensors:
        _notify_tensors(current, notify)
    examined = _examined(request, checkpoint, current, stage, progress)
    return msgspec.structs.replace(checkpoint, **examined)


def _examined(
    request: ScanRequest,
    checkpoint: Checkpoint,
    current: TensorCollector,
    stage: Stage,
    progress: ProgressThrottle,
) -> dict[str, object]:
    """Fields of the checkpoint that were requested; Unknown where no tensors were listed."""
    paths = ModelPaths(request.path, request.merged_from, request.adapters)
    wanted: dict[str, tuple[object, Callable[[Directory], object]]] = {
        "values": (
            request.deep or _is_small(request, current),
            lambda directory: _values(directory, current, request, stage, progress),
        ),
        "movement": (
            request.baseline,
            lambda directory: _movement(directory, current, request.baseline, stage, progress),
        ),
        "merge": (
            request.adapters,
            lambda _: read_merge(paths, current, stage, progress, every=request.deep),
        ),
        "equality": (
            request.equals,
            lambda _: read_equality(request.path, current, request.equals or "", stage, progress),
        ),
        "continuation": (
            request.plan or _counts_steps(current.directory),
            lambda directory: _continuation(directory, request.plan, checkpoint, current, stage),
        ),
    }
    origin = request.merged_from or request.baseline or request.equals
    changed = changed_settings(current.directory, origin) if origin and current.directory else ()
    return {"settings": changed} | {
        field: unread(checkpoint) if current.directory is None else look(current.directory)
        for field, (needed, look) in wanted.items()
        if needed
    }


def _continuation(
    directory: Directory,
    plan: Plan | None,
    checkpoint: Checkpoint,
    current: TensorCollector,
    stage: Stage,
) -> Continuation:
    from doctor.checkpoint.analysis.continuation import read_continuation

    with stage("read what a resumed run needs"):
        files = [shard.file for shard in current.shards]
        found = read_continuation(directory, files, checkpoint)
    return msgspec.structs.replace(found, plan=plan or Plan(), requested=plan is not None)


def _is_small(request: ScanRequest, current: TensorCollector) -> bool:
    """Whether every value lies on this machine and is read in a fraction of a second."""
    if not isinstance(current.directory, LocalDirectory) or request.share != WHOLE:
        return False
    held = (*current.tensors, *current.further, *current.moments)
    files = sum(shard.size for shard in current.shards)
    return len(held) <= FEW and max(files, sum(each.stored_bytes for each in held)) <= SMALL


def _counts_steps(directory: Directory | None) -> bool:
    """Whether a trainer's files count the steps of a run, or should, on this machine."""
    if not isinstance(directory, LocalDirectory):
        return False
    if directory.exists("trainer_state.json"):
        return directory.exists("scheduler.pt")
    return directory.exists("optimizer.pt") and directory.exists("training_args.bin")


def _notify_tensors(current: TensorCollector, notify: Notify) -> None:
    rows = [
        [tensor.name[:1000], tensor.dtype[:100], tensor.shape, tensor.file, tensor.stored_bytes]
        for tensor in current.tensors
    ]
    for start in range(0, len(rows), BATCH):
        notify({"tensors": rows[start : start + BATCH]})


def _values(
    directory: Directory,
    current: TensorCollector,
    request: ScanRequest,
    stage: Stage,
    progress: ProgressThrottle,
) -> Values | Unknown | None:
    """None where they were not requested and cannot be read."""
    from doctor.checkpoint.analysis.deep import scan_values
    from doctor.checkpoint.second_weights import compare_second

    def report(done: int, total: int) -> None:
        progress("read every value", done, total, "bytes")

    with stage("read every value"):
        values = scan_values(
            directory,
            current.tensors,
            threads=None if request.deep else 1,
            progress=report,
            further=current.further,
            moments=current.moments,
            share=request.share,
            neighbours=request.deep,
        )
        if request.share[0] or isinstance(values, Unknown):
            return values if request.deep else None
        second = compare_second(current, stage, None if request.deep else SMALL // 8)
        return msgspec.structs.replace(values, second=second, requested=request.deep)


def _movement(
    directory: Directory,
    current: TensorCollector,
    baseline: str | None,
    stage: Stage,
    progress: ProgressThrottle,
) -> Movement | Unknown:
    from doctor.checkpoint.analysis.baseline import compare

    assert baseline is not None
    before = TensorCollector()
    earlier = scan(baseline, counted_stages(stage, progress), before.collect)
    if isinstance(earlier, Unknown):
        return Unknown(reason=f"the baseline: {earlier.reason}")
    if before.directory is None or not before.shards:
        reason = unread(earlier).reason
        return Unknown(reason=f"the baseline {shown(redact_url(baseline), 300)}: {reason}")
    baseline_directory = before.directory

    def report(done: int, total: int) -> None:
        progress("compare with the baseline", done, total, "tensors")

    with stage("compare with the baseline"):
        movement = compare(directory, current.tensors, baseline_directory, before.tensors, report)
    if isinstance(movement, Unknown):
        return movement
    return msgspec.structs.replace(movement, baseline=redact_url(baseline))

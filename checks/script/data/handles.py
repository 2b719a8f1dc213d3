"""What a dataset holds that its workers cannot share: open files, memory of a GPU."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.data.worker_copies import has_workers
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call

OPENERS = {
    "h5py.File": "an HDF5 file",
    "tables.open_file": "an HDF5 file",
    "lmdb.open": "an LMDB environment",
    "sqlite3.connect": "a database",
    "zipfile.ZipFile": "an archive",
    "tarfile.open": "an archive",
    "decord.VideoReader": "a video",
    "cv2.VideoCapture": "a video",
    "open": "a file",
}
READS = {
    "read", "seek", "readline", "extractfile", "begin", "execute", "cursor", "get_batch", "set",
}  # fmt: skip


def handles(reading: Training) -> Iterator[Match]:
    if not reading.mentions("get_worker_info", "worker_init_fn"):
        yield from _opened_before_workers(reading)
    yield from _pinned_on_gpu(reading)


def _opened_before_workers(reading: Training) -> Iterator[Match]:
    """self.file = h5py.File(path) in __init__, and __getitem__ reads from it in workers."""
    shared = {name for n in reading.methods("DataLoader") for name in _dataset(reading, n)}
    for name in sorted(shared):
        start = objects.method_of(reading, name, "__init__")
        for call in reading.calls_in(start) if start is not None else ():
            kind = OPENERS.get(call.name, "")
            held = call.target
            if not kind or not held.startswith("self.") or call.contexts:
                continue
            if _closed(reading, start, held) or not _read_from(reading, name, held):
                continue
            key = reading.key(held, call.scope)
            if len(reading.assigned.get(key, ())) == 1:
                yield Match(
                    call.span,
                    f"{held} is {kind} that all workers share: their reads disturb each other",
                )


def _dataset(reading: Training, number: int) -> Iterator[str]:
    """The class of this file that a loader with workers reads."""
    call = reading.calls[number]
    if not (has_workers(reading, call) or _unpacked_workers(reading, call)):
        return
    data = call.given("dataset", 0)
    for option in evaluate.options(reading, data, call) if data is not None else ():
        made = reading.called(option)
        if objects.method_of(reading, made, "__getitem__") is not None:
            yield made


def _unpacked_workers(reading: Training, call: Call) -> bool:
    """num_workers of DataLoader(data, **options)."""
    value = evaluate.argument(reading, call, "num_workers")
    return (
        bool(call.unpacked)
        and value is not None
        and isinstance(value.literal, int)
        and value.literal > 0
    )


def _closed(reading: Training, scope: int | None, held: str) -> bool:
    """It is closed, or set to None, at the end of __init__."""
    return any(
        call.method == "close" and call.receiver == held and call.scope == scope
        for call in reading.calls
    )


def _read_from(reading: Training, name: str, held: str) -> bool:
    """__getitem__ reads from the handle, or from a part of it that __init__ keeps."""
    item = objects.method_of(reading, name, "__getitem__")
    start = objects.method_of(reading, name, "__init__")
    kept = {held}
    for each in reading.assignments:
        made = reading.call_of(each.value)
        if each.scope == start and made is not None and made.receiver == held:
            kept.add(each.target)
        part = each.value.kind == "item" and not any(
            v.kind == "slice" or (v.kind == "list" and not v.items) for v in each.value.items[1:]
        )
        if each.scope == start and part and each.value.name.partition("[")[0] == held:
            kept.add(each.target)
    names = {
        n.partition("[")[0]
        for value, _, scope in reading.expressions
        if scope == item
        for n in value.all_names
    }
    names |= {
        v.name
        for a in reading.assignments
        if a.scope == item and a.value.kind in ("name", "item")
        for v in (a.value, *a.value.items)
    }
    used = any(
        reading.calls[n].receiver.partition("[")[0] in kept
        for n in (reading.scope_calls(item) if item is not None else ())
    )
    within = any(
        reading.script.contexts[c].value.kind == "name"
        and reading.script.contexts[c].value.name in kept
        for n in (reading.scope_calls(item) if item is not None else ())
        for c in reading.calls[n].contexts
    )
    return used or within or bool(names & kept)


def _pinned_on_gpu(reading: Training) -> Iterator[Match]:
    """pin_memory=True over a TensorDataset of tensors on the GPU."""
    for call in reading.named("DataLoader"):
        pinned = call.keywords.get("pin_memory")
        data = call.given("dataset", 0)
        if pinned is None or pinned.literal is not True or data is None:
            continue
        for option in evaluate.options(reading, data, call):
            made = reading.call_of(option)
            if made is None or made.method != "TensorDataset" or not made.args:
                continue
            if all(_on_gpu(reading, value, made) for value in made.args):
                message = (
                    "pin_memory=True of tensors that are on the GPU: only CPU memory is pinned"
                )
                yield Match(call.span, message, "fail")


def _on_gpu(reading: Training, value: object, call: Call) -> bool:
    found = evaluate.options(reading, value, call)  # type: ignore[arg-type]
    return bool(found) and all(
        each.kind == "call"
        and (made := reading.calls[each.call]).method == "cuda"
        and bool(made.receiver or made.receiver_call >= 0)
        for each in found
    )


RULES = (
    Rule(
        code="SCR400",
        slug="handle-shared-by-workers",
        title="Each worker of a loader opens its files itself",
        severity="warn",
        find=handles,
        why="Workers are forks: a file that __init__ opened is one file with one position and one "
        "cache for all of them. Reads return parts of other samples, or fail.",
        fires=(
            "h5py.File, lmdb.open, open() and the like in __init__ of a dataset, read in "
            "__getitem__, and num_workers",
        ),
        errors=("pin_memory=True over tensors on the GPU",),
        fix="Open the file at the first __getitem__ of each worker: "
        "if self.file is None: self.file = h5py.File(path, 'r').",
        sources=("pytorch-11929",),
        needs=("__getitem__", "pin_memory"),
    ),
)

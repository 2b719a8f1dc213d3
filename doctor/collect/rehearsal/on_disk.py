"""What lies in {output} after a run: checkpoints, read as doctor scan reads them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from doctor._util.records import Unknown
from doctor._util.regular_file import read_regular
from doctor.checkpoint.records import Checkpoint
from doctor.checkpoint.runs import BROKEN
from doctor.collect.children import Children, read_checkpoint
from doctor.facts.rehearsal_runs import OnDisk

MOST = 6
"""Checkpoints that are examined, the newest ones."""
MOST_FILES = 10_000
SECONDS = 60.0
WHOLE = (".safetensors", ".bin", ".distcp", ".metadata")
"""Ends of files that make their directory a checkpoint."""
ALONE = (".pt", ".pth", ".ckpt")
"""Ends of files that are one by themselves."""
PARTS = ("optimizer", "scheduler", "rng_state", "random_states", "scaler", "training_args",
         "sampler")  # fmt: skip
"""Beginnings of files that belong to the weights beside them."""


def written(output: Path) -> int:
    """Bytes of all files below a directory."""
    return sum(size for _, size, _ in _files(output))


def changed_since(output: Path, moment: float) -> bool:
    """Whether a file was written after this moment, seconds since 1970."""
    return any(changed > moment for _, _, changed in _files(output))


def checkpoints(output: Path) -> tuple[OnDisk, ...]:
    """The newest checkpoints below {output}, the newest last."""
    files = list(_files(output))
    places = [_place(path) for path, _, _ in files]
    if not any(places):  # checkpoint.pth.tar, and names without an end
        places = [str(path) if _is_archive(path) else None for path, _, _ in files]
    sizes: dict[str, int] = {}
    newest: dict[str, float] = {}
    for place, (_, size, changed) in zip(places, files, strict=True):
        if place is not None:
            sizes[place] = sizes.get(place, 0) + size
            newest[place] = max(newest.get(place, 0.0), changed)
    chosen = sorted(newest, key=lambda place: newest[place])[-MOST:]
    if not chosen:
        return ()
    children = Children()
    try:
        return tuple(_examine(children, output, place, sizes[place]) for place in chosen)
    finally:
        children.interrupt()


def _place(path: Path) -> str | None:
    """The checkpoint that a file belongs to: its directory or itself; None for no checkpoint."""
    if path.name.startswith(PARTS) and path.suffix in (*ALONE, ".bin", ".pkl"):
        return str(path.parent)
    if path.name.endswith(WHOLE):
        return str(path.parent)
    return str(path) if path.suffix in ALONE else None


def _is_archive(path: Path) -> bool:
    """Whether a file begins as those of torch.save do."""
    try:
        head = read_regular(str(path), 200, follow=False)
    except OSError:
        return False
    return head.startswith(b"PK\x03\x04") and b"/data.pkl" in head


def is_checkpoint_file(path: Path) -> bool:
    """Whether a file of this name belongs to a checkpoint."""
    return _place(path) is not None


def _examine(children: Children, output: Path, place: str, size: int) -> OnDisk:
    name = os.path.relpath(place, output)
    options = '{"baseline": null, "deep": false, "tensors": false}'
    answer = children.run_probe("checkpoint", place, options, seconds=SECONDS)
    checkpoint = read_checkpoint(answer)
    if isinstance(checkpoint, Unknown):
        return OnDisk(path=name, bytes=size, weights=False, unread=checkpoint.reason[:2000])
    torn = tuple(each.message[:500] for each in checkpoint.problems if each.kind in BROKEN)
    reason = checkpoint.not_inspectable or ""
    return OnDisk(
        path=name, bytes=size, weights=_has_weights(checkpoint), torn=torn[:5], unread=reason,
        optimizer=checkpoint.training.optimizer is not None,
    )  # fmt: skip


def _has_weights(checkpoint: Checkpoint) -> bool:
    return bool(checkpoint.contents.tensors)


def _files(output: Path) -> Iterator[tuple[Path, int, float]]:
    """Path, bytes and time of the last change of each file."""
    count = 0
    for directory, _, names in os.walk(output):
        for name in names:
            path = Path(directory, name)
            if path.is_symlink() and not path.resolve().is_relative_to(output.resolve()):
                continue  # an entry of the working directory, by --in-output
            try:
                state = path.lstat()
            except OSError:
                continue
            count += 1
            if count > MOST_FILES:
                return
            yield path, state.st_size, state.st_mtime

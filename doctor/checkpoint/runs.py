"""A directory of a run's checkpoints: the latest one, and a row for each."""

from __future__ import annotations

from pathlib import Path

import msgspec

from doctor._util.records import Unknown
from doctor._util.units import shown
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.files import LocalDirectory
from doctor.checkpoint.io.stages import Stage
from doctor.checkpoint.io.urls import is_address
from doctor.checkpoint.layouts.hints import checkpoints
from doctor.checkpoint.records import Checkpoint, Optimizer, Problem, Sibling
from doctor.checkpoint.scan import OnTensors, scan

MOST = 50
"""Checkpoints that are read, the latest ones."""


def run_checkpoints(path: str) -> list[str]:
    """Names of the checkpoints below a directory on this machine, by their numbers."""
    if is_address(path):
        return []
    try:
        names = LocalDirectory(Path(path)).names()
    except CheckpointError:
        return []
    return checkpoints([name.rstrip("/") for name in names if name.endswith("/")])


def read_run(
    path: str, names: list[str], stage: Stage, on_tensors: OnTensors
) -> Checkpoint | Unknown:
    """The latest checkpoint, with a row for each of the run. Unknown where it cannot be read."""
    *earlier, last = names[-MOST:]
    latest = scan(str(Path(path, last)), stage, on_tensors)
    if isinstance(latest, Unknown):
        return latest
    rows = [_row(name, scan(str(Path(path, name)), stage)) for name in earlier]
    text = f"is the latest of {len(names):,} checkpoints; name another one to examine it"
    note = Problem(kind="note", file=shown(last), text=text)
    return msgspec.structs.replace(
        latest,
        siblings=(*rows, _row(last, latest)),
        problems=(*latest.problems, note),
    )


def _row(name: str, checkpoint: Checkpoint | Unknown) -> Sibling:
    if isinstance(checkpoint, Unknown):
        return Sibling(name=shown(name), reason=checkpoint.reason)
    norms, optimizer = checkpoint.contents.norms, checkpoint.training.optimizer
    state = optimizer if isinstance(optimizer, Optimizer) else None
    return Sibling(
        name=shown(name),
        steps=checkpoint.training.steps,
        bytes=checkpoint.files.bytes,
        norms=len(norms),
        unchanged_norms=sum(norm.value in ("ones", "zeros") for norm in norms),
        moments=state.moments if state else {},
        entries=state.entries if state else 0,
        nonzero_moments=state.nonzero_moments if state else 0,
        problems=sum(problem.kind != "note" for problem in checkpoint.problems),
        reason=checkpoint.not_inspectable or "",
    )

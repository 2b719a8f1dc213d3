"""A directory of a run's checkpoints: the latest one, and a row for each."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from doctor._util.records import Unknown
from doctor._util.units import listed, shown
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.files import LocalDirectory
from doctor.checkpoint.io.stages import Stage
from doctor.checkpoint.io.urls import is_address
from doctor.checkpoint.layouts.hints import checkpoints, numbered, only_below
from doctor.checkpoint.records import Checkpoint, Optimizer, Problem, Sibling
from doctor.checkpoint.scan import OnTensors, scan

BROKEN = ("damaged", "disguised", "missing", "lost-rank", "empty", "unloadable")
"""Kinds of problems that keep a checkpoint from being loaded."""

STATE = re.compile(
    r"optim|scheduler|rng_state|random_states|trainer_state|scaler|sampler|global_step|dataloader"
    r"|custom_checkpoint"
)
"""Beginnings of the names of what a run goes on with, beside the weights."""

MOST_COMPARED = 4
"""The latest checkpoints whose files are compared."""

MOST = 50
"""Checkpoints that are read, the latest ones."""


def run_checkpoints(path: str) -> list[str]:
    """Names of the checkpoints below a directory on this machine, by their numbers."""
    if is_address(path):
        return []
    try:
        names = (directory := LocalDirectory(Path(path))).names()
    except CheckpointError:
        return []
    inside = [name.rstrip("/") for name in names if name.endswith("/")]
    return checkpoints(inside) or numbered(directory, inside)


def subdirectory(path: str) -> str:
    """The path of the one subdirectory with weights of a directory that has none; "" for none."""
    if is_address(path):
        return ""
    try:
        names = (directory := LocalDirectory(Path(path))).names()
    except CheckpointError:
        return ""
    name = only_below(directory, [name.rstrip("/") for name in names if name.endswith("/")])
    return str(Path(path, name)) if name else ""


def read_run(
    path: str, names: list[str], stage: Stage, on_tensors: OnTensors
) -> Checkpoint | Unknown:
    """The latest checkpoint that holds weights, with a row for each of the run.

    Unknown where none does. A latest one that is not whole is a problem that names the last whole
    one: a trainer resumes from the latest by its number, whatever is in it.
    """
    rows: list[Sibling] = []
    latest: Checkpoint | Unknown = Unknown(reason=f"no checkpoint of the run {shown(path, 300)}")
    for name in reversed(names[-MOST:]):
        place = str(Path(path, name))
        if isinstance(latest, Unknown) or _is_empty(latest):
            checkpoint = latest = scan(place, stage, on_tensors)
        else:
            checkpoint = scan(place, stage)
        rows.insert(0, _row(name, checkpoint))
    if isinstance(latest, Unknown):
        return latest
    text = f"is the latest of {len(names):,} checkpoints; name another one to examine it"
    note = Problem(kind="note", file=shown(names[-1]), text=text)
    unfinished = _unfinished(rows, latest.problems) or _incomplete(path, names)
    return msgspec.structs.replace(
        latest, siblings=tuple(rows), problems=(*unfinished, *latest.problems, note)
    )


def _is_empty(checkpoint: Checkpoint) -> bool:
    """Whether its files hold no weights, such as an optimizer's state alone."""
    problems = any(problem.kind in BROKEN for problem in checkpoint.problems)
    return not (checkpoint.contents.tensors or checkpoint.not_inspectable or problems)


def _unfinished(rows: list[Sibling], problems: tuple[Problem, ...]) -> list[Problem]:
    """The latest checkpoint where it is not whole, with the last one that is."""
    last = rows[-1]
    if last.is_whole:
        return []
    whole = next((row.name for row in reversed(rows) if row.is_whole), "")
    text = f"{whole} is the last whole one" if whole else "no other of the run is whole either"
    found = next((each.message for each in problems if each.kind in BROKEN), "lacks files")
    why = "holds no weights" if last.reason else f"is not whole ({found})"
    return [Problem(kind="unfinished", file=last.name, text=f"{why}; {text}")]


def _incomplete(path: str, names: list[str]) -> list[Problem]:
    """The latest checkpoint where it lacks files of the run's state that those before it have."""
    held = {name: _state_files(Path(path, name)) for name in names[-MOST_COMPARED:]}
    latest, before = names[-1], list(held)[:-1]
    common = set.intersection(*(held[name] for name in before)) if before else set()
    lacking = sorted(common - held[latest])
    if not lacking:
        return []
    text = (
        f"lacks {listed(lacking, 5)}, which the checkpoints before it have; {before[-1]} is the "
        "last with all of it"
    )
    return [Problem(kind="incomplete", file=shown(latest), text=text)]


def _state_files(place: Path) -> set[str]:
    """Files and directories of the state of optimizer and trainer, their numbers as #."""
    try:
        names = LocalDirectory(place).names()
    except CheckpointError:
        return set()
    states = (name for name in names if STATE.match(name))
    return {shown(re.sub(r"\d+", "#", name.rstrip("/"))) for name in states}


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
        problems=sum(
            each.kind not in ("note", "misspelled", "other-device") for each in checkpoint.problems
        ),
        damaged=any(problem.kind in BROKEN for problem in checkpoint.problems),
        reason=checkpoint.not_inspectable or "no weights" * _is_empty(checkpoint),
    )

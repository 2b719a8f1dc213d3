"""Directories without weights of their own: what lies below them, and downloads that stopped."""

from __future__ import annotations

import re

from doctor._util.units import listed, shown
from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.io.files import Directory, LocalDirectory
from doctor.checkpoint.layouts.file_names import NOT_WEIGHTS, ONE
from doctor.checkpoint.records import Problem

CHECKPOINTS = re.compile(r"(?:checkpoint|step|iter|epoch|global_step)[-_]?(\d+)(?:_universal)?")
"""Names of the checkpoints of a run."""

DOWNLOADS = ".cache/huggingface/download"
"""Where `hf download --local-dir` keeps what is not complete."""

MOST_BELOW = 50
"""Subdirectories that are looked into for weights."""

REVISION = re.compile(r"[\w.-]+")


def checkpoints(names: list[str]) -> list[str]:
    """Those that are named like the checkpoints of a run, by their numbers."""
    numbered = [(int(match[1]), name) for name in names if (match := CHECKPOINTS.fullmatch(name))]
    return [name for _, name in sorted(numbered)]


def numbered(directory: Directory, names: list[str]) -> list[str]:
    """Those named by a number alone that hold weights, where there are several."""
    found = sorted((name for name in names if name.isdecimal()), key=int)[-MOST_BELOW:]
    held = [name for name in found if _holds(directory, name)]
    return held if len(held) > 1 else []


def snapshot(directory: Directory, names: list[str]) -> str | None:
    """The revision that refs/main names in a model's directory of the Hub's cache.

    None where it is no such directory. Raises CheckpointError where the revision is not there.
    """
    if not {"refs", "snapshots"} <= {*names}:
        return None
    with directory.open("refs/main") as source:
        revision = source.read(200, 0).decode("utf-8", "replace").strip()
    if not REVISION.fullmatch(revision) or set(revision) == {"."}:
        raise CheckpointError("damaged", "has a refs/main that does not name a revision")
    if f"{revision}/" not in directory.inside("snapshots").names():
        text = f"has no snapshot {shown(revision)}, which refs/main names"
        raise CheckpointError("missing", text)
    return revision


def incomplete_downloads(directory: Directory, entries: list[str]) -> tuple[Problem, ...]:
    """A note about files of an interrupted download beside what is complete."""
    names: list[str] = []
    for under in ([DOWNLOADS] if ".cache" in entries else []) + ["blobs"] * ("blobs" in entries):
        try:
            names += directory.inside(under).names()
        except CheckpointError:
            continue
    parts = [name for name in names if name.endswith(".incomplete")]
    if not parts:
        return ()
    files = f"{len(parts)} .incomplete file{'s' * (len(parts) != 1)}"
    text = f"an interrupted download left {files}: the same hf download resumes it"
    return (Problem(kind="note", file="", text=text),)


def below(directory: Directory, names: list[str]) -> str:
    """What to name instead, "" where nothing below looks like a checkpoint."""
    if runs := checkpoints(names):
        return f"; name a subdirectory, such as {shown(runs[-1])}, the latest of {len(runs):,}"
    if "snapshots" in names:
        return "; name a subdirectory of snapshots"
    if not isinstance(directory, LocalDirectory):
        return ""
    held = [name for name in names[:MOST_BELOW] if name[0] != "." and _holds(directory, name)]
    return f"; name a subdirectory with weights: {listed(held, 3)}" if held else ""


def only_below(directory: Directory, names: list[str]) -> str:
    """The one subdirectory in which weights lie, by the names of files; "" where several do, or
    where it may be another's data."""
    inside = [name for name in names if not name.startswith(".")]
    held = {name: _held(directory, name) for name in inside} if len(inside) <= MOST_BELOW else {}
    found = [name for name, files in held.items() if files]
    if len(found) != 1 or not any(NO_DATA.match(file) for file in held[found[0]]):
        return ""
    return found[0]


NO_DATA = re.compile(r"(?:\w*_)?model|.*\.(?:safetensors|gguf|distcp|ckpt)$")
"""Names of files that are weights, whatever else may end so."""


def _holds(directory: Directory, name: str) -> bool:
    """Whether files of weights lie in a subdirectory, by their names."""
    return bool(_held(directory, name))


def _held(directory: Directory, name: str) -> list[str]:
    try:
        inside = directory.inside(name).names()
    except CheckpointError:
        return []
    ends = (*ONE, ".distcp")
    return [each for each in inside if each.endswith(ends) and not NOT_WEIGHTS.fullmatch(each)]
